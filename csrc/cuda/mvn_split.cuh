// Normalization of groups that many blocks share: statistics of parts, then of groups, then the
// result; each step is a launch.
#pragma once

#include "cuda/grid.cuh"
#include "cuda/mvn_row_parts.cuh"

namespace cudml::cuda {

/// How groups are cut into parts, and how positions are read: as whole aligned vectors, or one by
/// one. Each thread then has as many neighbours as a vector, since alignment is not to change the
/// sums, unless neighbours in a group stand apart anyway.
struct MvnSplit {
  FastDiv parts;                                // of one group
  uint32_t part_size = 1;                       // positions, a multiple of all threads' vectors
  bool has_neighbours = false;                  // in x
  bool is_x_packed = false, is_packed = false;  // x alone; x and y
  bool is_whole = false;
  Access scale = Access::apart, bias = Access::apart;

  MvnSplit(const MvnPlan& plan, const MvnPointers& p, const MvnParts& cut)
      : parts(uint32_t(cut.count)), part_size(uint32_t(cut.elements)) {
    const MvnAxis inner = plan.reduced_rank ? plan.reduced[plan.reduced_rank - 1] : MvnAxis{};
    is_whole = plan.reduced_rank < 2 || inner.size % mvn_vector(plan.dtype) == 0;
    has_neighbours = inner.x == 1;
    is_x_packed = are_accesses_packed(plan, &MvnAxis::x, p.x, is_whole);
    is_packed = is_x_packed && are_accesses_packed(plan, &MvnAxis::y, p.y, is_whole);
    scale = access_of(are_accesses_packed(plan, &MvnAxis::scale, p.scale, is_whole), inner.scale,
                      is_whole);
    bias = access_of(are_accesses_packed(plan, &MvnAxis::bias, p.bias, is_whole), inner.bias,
                     is_whole);
  }
};

/// The part that a block works on: positions [begin, end) of group g.
struct MvnPart {
  uint32_t g, index, begin, end;

  __device__ __forceinline__ MvnPart(const MvnSplit& split, uint32_t block, uint32_t group_size) {
    g = split.parts.quotient(block);
    index = block - g * split.parts.divisor;
    begin = index * split.part_size;
    end = min(begin + split.part_size, group_size);
  }
};

/// Some of a thread's elements: vectors, or as many single ones. The first `count` exist.
template <class T>
struct MvnTile {
  using A = Acc<T>;
  static constexpr int kN = kVector<T>, kSize = kMvnSplitSlots * kN;

  Carrier slots[kMvnSplitSlots];
  int count = 0;

  /// Those from position `first` of a part that ends at `end`.
  __device__ __forceinline__ MvnTile(const MvnArgs<T>& args, const T* x, const MvnSplit& split,
                                     uint32_t first, uint32_t end) {
    const auto place = [&](int j, int e) {
      return split.has_neighbours
                 ? first + (uint32_t(j) * kMvnThreads + threadIdx.x) * kN + uint32_t(e)
                 : first + uint32_t(j * kN + e) * kMvnThreads + threadIdx.x;
    };
    if (split.is_x_packed) {
#pragma unroll
      for (int j = 0; j < kMvnSplitSlots; ++j) {
        if (place(j, kN - 1) >= end) continue;
        slots[j] = *reinterpret_cast<const Carrier*>(x + args.reduced.at(place(j, 0)).x);
        count += kN;
      }
      return;
    }
#pragma unroll
    for (int j = 0; j < kMvnSplitSlots; ++j) {
      Vector<T, kN> slot = {};
      const bool is_whole = place(j, kN - 1) < end;
#pragma unroll
      for (int e = 0; e < kN; ++e) {
        if (!is_whole && (split.has_neighbours || place(j, e) >= end)) continue;
        slot.v[e] = x[args.reduced.at(place(j, e)).x];
        ++count;
      }
      slots[j] = std::bit_cast<Carrier>(slot);
    }
  }

  /// Calls fn(value, number) for each.
  template <class Fn>
  __device__ __forceinline__ void for_each(const Fn& fn) const {
    if (count % kN == 0)
      some<false>(fn);
    else
      some<true>(fn);
  }

  __device__ __forceinline__ double sum() const {
    A sums[2] = {};
    for_each([&](A v, int i) { sums[i % 2] += v; });
    return double(sums[0]) + double(sums[1]);
  }

 private:
  template <bool kIsBroken, class Fn>
  __device__ __forceinline__ void some(const Fn& fn) const {
#pragma unroll
    for (int j = 0; j < kMvnSplitSlots; ++j) {
      if (j * kN >= count) break;
      A v[kN];
      widen(unpacked<T>(slots[j]), v);
#pragma unroll
      for (int e = 0; e < kN; ++e)
        if (!kIsBroken || j * kN + e < count) fn(v[e], j * kN + e);
    }
  }
};

/// The statistics of parts, each of sums about the mean of its first tiles.
template <class T>
__global__ __launch_bounds__(kMvnThreads) void mvn_split_moments_kernel(const MvnArgs<T> args,
                                                                        const MvnSplit split,
                                                                        Moments<Acc<T>>* parts) {
  using A = Acc<T>;
  DEVICE_SHARED(first_scratch, Raw<TwoSums>[32]);
  DEVICE_SHARED(second_scratch, Raw<TwoSums>[32]);
  const MvnPart part(split, blockIdx.x, uint32_t(args.group_size));
  const T* x = args.x + args.kept.at(part.g).x;
  const auto value = [&](uint32_t at) { return load_as_acc(x[args.reduced.at(at).x]); };
  MvnTile<T> tile(args, x, split, part.begin, part.end);
  A pivot = 0;
  if (args.use_mean) {
    const TwoSums all = block_all_sum(TwoSums{tile.sum(), double(tile.count)}, first_scratch);
    const A mean = all.second > 0 ? pivot_of<A>(all.first, all.second) : value(part.begin);
    // As an element, from which others of sixteen bits differ by few bits.
    if (is_finite(mean)) pivot = load_as_acc(store_as<T>(mean));
  }
  TwoSums sums;
  for (uint32_t first = part.begin;;) {
    PivotSums<A> some;
    tile.for_each([&](A v, int i) { some.add(v, pivot, i % 2); });
    sums += some.wide();
    first += MvnTile<T>::kSize * kMvnThreads;
    if (first >= part.end) break;
    tile = MvnTile<T>(args, x, split, first, part.end);
  }
  // What vectors leave over at the end of a group.
  const uint32_t rest = part.end % kVector<T>;
  if (split.has_neighbours && threadIdx.x < rest) {
    PivotSums<A> one;
    one.add(value(part.end - rest + threadIdx.x), pivot);
    sums += one.wide();
  }
  sums = block_all_sum(sums, second_scratch);
  if (threadIdx.x == 0)
    parts[blockIdx.x] = args.moments(double(part.end - part.begin), pivot, sums.first, sums.second);
}

/// Joins the parts of each group, one warp for each.
template <class A>
__global__ __launch_bounds__(kMvnThreads) void mvn_join_kernel(const Moments<A>* parts,
                                                               uint32_t count, uint32_t groups,
                                                               bool use_variance, double epsilon,
                                                               Normalizer<A>* normalizers,
                                                               Moments<A>* statistics) {
  const uint32_t lane = threadIdx.x % 32;
  const auto g = uint32_t(warp_in_grid());
  Moments<A> moments;
  if (g < groups)
    for (uint32_t i = lane; i < count; i += 32)
      moments = MergeMoments{}(moments, parts[int64_t(g) * count + i]);
  for (int distance = 16; distance > 0; distance /= 2)
    moments = MergeMoments{}(moments, moments_of_lane_above(moments, distance));
  if (lane != 0 || g >= groups) return;
  normalizers[g] = normalizer_of(moments, use_variance, epsilon);
  if (statistics) statistics[g] = moments;
}

/// kVector elements from position `at` on, all tensors' strides known to allow vectors.
template <class T>
__device__ __forceinline__ void write_vector(const MvnArgs<T>& args, const MvnSplit& split,
                                             const MvnOffsets& group, uint32_t at,
                                             const Normalizer<Acc<T>>& normalizer) {
  using A = Acc<T>;
  constexpr int kN = kVector<T>;
  const MvnOffsets place = args.reduced.at(at);
  A v[kN], scale[kN], bias[kN];
  widen(load_vector<kN>(args.x + group.x + place.x), v);
  fetch(args.scale, split.scale, group.scale + place.scale, scale, [&](A(&out)[kN]) {
#pragma unroll
    for (int e = 0; e < kN; ++e)
      out[e] = args.scale.at(group.scale + args.reduced.at(at + e).scale);
  });
  fetch(args.bias, split.bias, group.bias + place.bias, bias, [&](A(&out)[kN]) {
#pragma unroll
    for (int e = 0; e < kN; ++e) out[e] = args.bias.at(group.bias + args.reduced.at(at + e).bias);
  });
#pragma unroll
  for (int e = 0; e < kN; ++e) v[e] = fused(normalizer(v[e]), scale[e], bias[e]);
  args.activate(v);
  store_vector<kN>(args.y + group.y + place.y, narrow<T>(v));
}

template <class T>
__global__ __launch_bounds__(kMvnThreads) void mvn_split_apply_kernel(
    const MvnArgs<T> args, const MvnSplit split, const Normalizer<Acc<T>>* normalizers) {
  constexpr int kN = kVector<T>;
  // From the end: what the statistics read last is still in the cache.
  const MvnPart part(split, gridDim.x - 1 - blockIdx.x, uint32_t(args.group_size));
  const MvnOffsets group = args.kept.at(part.g);
  Normalizer<Acc<T>> normalizer;
  if (args.has_statistics()) normalizer = normalizers[part.g];
  uint32_t single = part.begin;
  if (split.is_packed) {
    single = part.end / kN * kN;
#pragma unroll 2
    for (uint32_t at = part.begin + threadIdx.x * kN; at < single; at += kMvnThreads * kN)
      write_vector(args, split, group, at, normalizer);
  }
  for (uint32_t at = single + threadIdx.x; at < part.end; at += kMvnThreads) {
    MvnOffsets place = args.reduced.at(at);
    place.add(group);
    args.write(place, normalizer);
  }
}

}  // namespace cudml::cuda
