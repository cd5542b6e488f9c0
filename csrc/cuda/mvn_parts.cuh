// Statistics of groups that are cut into parts: what a part's threads add up, and how parts are
// joined. The order of additions is the same whether each part has a block of its own, or a block
// keeps several.
#pragma once

#include "cuda/mvn_row_parts.cuh"

namespace cudml::cuda {

/// Positions [begin, end) of a group.
struct MvnPart {
  uint32_t begin = 0, end = 0;

  MvnPart() = default;
  __device__ __forceinline__ MvnPart(uint32_t index, uint32_t part_size, uint32_t group_size)
      : begin(index * part_size), end(min(begin + part_size, group_size)) {}
};

/// Some of a thread's elements: kMvnSplitSlots vectors, or as many single ones. The first `count`
/// exist.
template <class T>
struct MvnTile {
  using A = Acc<T>;
  static constexpr int kN = kVector<T>, kSize = kMvnSplitSlots * kN;

  Carrier slots[kMvnSplitSlots];
  int count = 0;

  /// The accesses `number`, number + kMvnThreads, ... of those before `end`, next to each other.
  __device__ __forceinline__ MvnTile(const Carrier* accesses, uint32_t number, uint32_t end) {
#pragma unroll
    for (int j = 0; j < kMvnSplitSlots; ++j) {
      if (number + j * kMvnThreads >= end) continue;
      slots[j] = accesses[number + j * kMvnThreads];
      count += kN;
    }
  }

  /// What brings them otherwise fills slots and count.
  MvnTile() = default;

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

/// The statistics of a part by kMvnThreads threads, of sums about the mean of its first tile.
/// tile_at(first) brings the caller's elements from position `first` on; value(at) is the element
/// at a position. `lead` is the first of the part's warps. Two barriers of the block; scratches as
/// for warps_all_sum.
template <class T, class TileAt, class Value>
__device__ __forceinline__ Moments<Acc<T>> part_moments(const MvnArgs<T>& args, const MvnPart& part,
                                                        bool has_neighbours, uint32_t lead,
                                                        Raw<TwoSums>* first_scratch,
                                                        Raw<TwoSums>* second_scratch,
                                                        const TileAt& tile_at, const Value& value) {
  using A = Acc<T>;
  constexpr uint32_t kWarps = kMvnThreads / 32;
  MvnTile<T> tile = tile_at(part.begin);
  A pivot = 0;
  if (args.use_mean) {
    const TwoSums all =
        warps_all_sum(TwoSums{tile.sum(), double(tile.count)}, first_scratch, lead, kWarps);
    A mean = 0;
    if (all.second > 0)
      mean = pivot_near(pivot_of<A>(all.first, all.second), all.second,
                        [&] { return value(part.begin); });
    else if (part.begin < part.end)
      mean = value(part.begin);
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
    tile = tile_at(first);
  }
  // What vectors leave over at the end of a group.
  const uint32_t rest = part.end % kVector<T>, thread = threadIdx.x % kMvnThreads;
  if (has_neighbours && thread < rest) {
    PivotSums<A> one;
    one.add(value(part.end - rest + thread), pivot);
    sums += one.wide();
  }
  sums = warps_all_sum(sums, second_scratch, lead, kWarps);
  return args.moments(double(part.end - part.begin), pivot, sums.first, sums.second);
}

/// What a warp makes of `count` parts of a group, known to its first lane; at(i) is the i-th's.
template <class A, class At>
__device__ __forceinline__ Moments<A> joined_parts(uint32_t count, const At& at) {
  Moments<A> moments;
  for (uint32_t i = threadIdx.x % 32; i < count; i += 32) moments = MergeMoments{}(moments, at(i));
  for (int distance = 16; distance > 0; distance /= 2)
    moments = MergeMoments{}(moments, moments_of_lane_above(moments, distance));
  return moments;
}

}  // namespace cudml::cuda
