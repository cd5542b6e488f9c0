// Normalization of groups that many blocks share: statistics of parts, then of groups, then the
// result; each step is a launch.
#pragma once

#include "cuda/grid.cuh"
#include "cuda/mvn_parts.cuh"

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

/// The part that a block works on, of group g.
struct MvnBlockPart : MvnPart {
  uint32_t g;

  __device__ __forceinline__ MvnBlockPart(const MvnSplit& split, uint32_t block,
                                          uint32_t group_size)
      : g(split.parts.quotient(block)) {
    static_cast<MvnPart&>(*this) =
        MvnPart(block - g * split.parts.divisor, split.part_size, group_size);
  }
};

/// A thread's elements from position `first` on of a part that ends at `end`.
template <class T>
__device__ __forceinline__ MvnTile<T> split_tile(const MvnArgs<T>& args, const T* x,
                                                 const MvnSplit& split, uint32_t first,
                                                 uint32_t end) {
  constexpr int kN = kVector<T>;
  MvnTile<T> tile;
  const auto place = [&](int j, int e) {
    return split.has_neighbours
               ? first + (uint32_t(j) * kMvnThreads + threadIdx.x) * kN + uint32_t(e)
               : first + uint32_t(j * kN + e) * kMvnThreads + threadIdx.x;
  };
  if (split.is_x_packed) {
#pragma unroll
    for (int j = 0; j < kMvnSplitSlots; ++j) {
      if (place(j, kN - 1) >= end) continue;
      tile.slots[j] = *reinterpret_cast<const Carrier*>(x + args.reduced.at(place(j, 0)).x);
      tile.count += kN;
    }
    return tile;
  }
#pragma unroll
  for (int j = 0; j < kMvnSplitSlots; ++j) {
    Vector<T, kN> slot = {};
    const bool is_whole = place(j, kN - 1) < end;
#pragma unroll
    for (int e = 0; e < kN; ++e) {
      if (!is_whole && (split.has_neighbours || place(j, e) >= end)) continue;
      slot.v[e] = x[args.reduced.at(place(j, e)).x];
      ++tile.count;
    }
    tile.slots[j] = std::bit_cast<Carrier>(slot);
  }
  return tile;
}

template <class T>
__global__ __launch_bounds__(kMvnThreads) void mvn_split_moments_kernel(const MvnArgs<T> args,
                                                                        const MvnSplit split,
                                                                        Moments<Acc<T>>* parts) {
  DEVICE_SHARED(first_scratch, Raw<TwoSums>[32]);
  DEVICE_SHARED(second_scratch, Raw<TwoSums>[32]);
  const MvnBlockPart part(split, blockIdx.x, uint32_t(args.group_size));
  const T* x = args.x + args.kept.at(part.g).x;
  const auto tile_at = [&](uint32_t first) { return split_tile(args, x, split, first, part.end); };
  const auto value = [&](uint32_t at) { return load_as_acc(x[args.reduced.at(at).x]); };
  const Moments<Acc<T>> moments = part_moments(args, part, split.has_neighbours, 0, first_scratch,
                                               second_scratch, tile_at, value);
  if (threadIdx.x == 0) parts[blockIdx.x] = moments;
}

/// Joins the parts of each group, one warp for each.
template <class A>
__global__ __launch_bounds__(kMvnThreads) void mvn_join_kernel(const Moments<A>* parts,
                                                               uint32_t count, uint32_t groups,
                                                               bool use_variance, double epsilon,
                                                               Normalizer<A>* normalizers,
                                                               Moments<A>* statistics) {
  const auto g = uint32_t(warp_in_grid());
  const Moments<A> moments = joined_parts<A>(
      g < groups ? count : 0, [&](uint32_t i) { return parts[int64_t(g) * count + i]; });
  if (threadIdx.x % 32 != 0 || g >= groups) return;
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
  const MvnBlockPart part(split, gridDim.x - 1 - blockIdx.x, uint32_t(args.group_size));
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
