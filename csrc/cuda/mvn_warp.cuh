// Normalization of rows that a warp, or some lanes of one, keep in registers as they were stored.
#pragma once

#include "cuda/grid.cuh"
#include "cuda/mvn_row_parts.cuh"

namespace cudml::cuda {

/// The rows of one lane: every `lanes` neighbouring lanes share kBatch rows, of up to
/// lanes * kSlots accesses.
template <class T, int kSlots, int kBatch, bool kActivates, RowParameters kParameters>
struct MvnWarpRows {
  using A = Acc<T>;
  using Row = MvnRow<T, kActivates, kParameters>;

  const MvnArgs<T>& args;
  const MvnRowShape& shape;
  uint32_t lanes, lane, in_row, first, abreast;
  MvnOffsets group[kBatch];
  RowSlot<T> slot[kBatch][kSlots];
  T tail[kBatch];

  __device__ __forceinline__ MvnWarpRows(const MvnArgs<T>& args, const MvnRowShape& shape,
                                         uint32_t lanes)
      : args(args), shape(shape), lanes(lanes) {
    lane = threadIdx.x % 32;
    in_row = lane % lanes;
    abreast = 32 / lanes;
    first = uint32_t(warp_in_grid()) * kBatch * abreast + lane / lanes;
#pragma unroll
    for (int b = 0; b < kBatch; ++b)
      if (exists(b)) group[b] = args.kept.at(first + b * abreast);
  }

  __device__ __forceinline__ bool exists(int b) const { return first + b * abreast < args.groups; }
  __device__ __forceinline__ Row row(int b) const {
    return Row(args, shape, group[b], exists(b), in_row, lanes);
  }
  /// Where row b passes through shared memory.
  __device__ __forceinline__ RowSlot<T>* stage(int b) const {
    DYNAMIC_SHARED(rows, RowSlot<T>);
    return rows + ((threadIdx.x / lanes) * kBatch + b) * kSlots * lanes;
  }

  __device__ __forceinline__ void read() {
    if (!shape.x.is_linear) {
#pragma unroll
      for (int b = 0; b < kBatch; ++b) row(b).fill(stage(b));
      __syncwarp();
    }
#pragma unroll
    for (int b = 0; b < kBatch; ++b) {
      const Row r = row(b);
      const RowSlot<T>* from = shape.x.is_linear ? r.x_slots() : stage(b);
#pragma unroll
      for (int s = 0; s < kSlots; ++s)
        if (r.slot(s) < r.slots) slot[b][s] = from[r.slot(s)];
      if (r.has_tail()) tail[b] = r.load(r.tail());
    }
  }

  __device__ __forceinline__ A pivot(int b) const {
    const Row r = row(b);
    A sum = r.has_tail() ? load_as_acc(tail[b]) : A(0);
#pragma unroll
    for (int s = 0; s < kSlots; ++s)
      if (r.slot(s) < r.slots) sum += slot_sum(slot[b][s]);
    const A mean = warp_all_sum(sum, int(lanes)) * shape.inverse_length;
    const A own = r.slots > 0 ? load_as_acc(slot[b][0].v[0]) : load_as_acc(tail[b]);
    const A one = __shfl_sync(kFullMask, own, int(lane - in_row));
    return pivot_near(mean, shape.length, [one] { return one; });
  }

  __device__ __forceinline__ TwoSums sums_about(A pivot, int b) const {
    const Row r = row(b);
    PivotSums<A> part;
#pragma unroll
    for (int s = 0; s < kSlots; ++s)
      if (r.slot(s) < r.slots) part.add(slot[b][s], pivot);
    if (r.has_tail()) part.add(load_as_acc(tail[b]), pivot);
    return warp_all_sum(part.wide(), int(lanes));
  }

  /// The normalizer of row in_row % kBatch: since roots and quotients are in double, each lane
  /// makes one for all.
  __device__ __forceinline__ Normalizer<A> normalizer() const {
    A pivots[kBatch] = {}, mine = 0;
    TwoSums sums;
    if (args.use_mean) {
#pragma unroll
      for (int b = 0; b < kBatch; ++b) pivots[b] = pivot(b);
    }
#pragma unroll
    for (int b = 0; b < kBatch; ++b) {
      const TwoSums of_row = sums_about(pivots[b], b);
      if (in_row % kBatch != uint32_t(b)) continue;
      sums = of_row;
      mine = pivots[b];
    }
    const int b = int(in_row % kBatch);
    return args.normalizer(args.moments(shape.length, mine, sums.first, sums.second),
                           first + b * abreast, in_row < kBatch && exists(b));
  }

  __device__ __forceinline__ void write(const Normalizer<A>& mine) const {
#pragma unroll
    for (int b = 0; b < kBatch; ++b) {
      const int from = int(lane - in_row) + b;
      const Normalizer<A> n = {__shfl_sync(kFullMask, mine.pivot, from),
                               __shfl_sync(kFullMask, mine.delta, from),
                               __shfl_sync(kFullMask, mine.factor, from)};
      Row r = row(b);
      r.fetch_operands();
      RowSlot<T>* to = shape.y.is_linear ? r.y_slots() : stage(b);
      constexpr int kTogether = kSlots < kMvnParameterSlots ? kSlots : kMvnParameterSlots;
#pragma unroll
      for (int s = 0; s < kSlots; s += kTogether)
        r.template write<kTogether>(to, slot[b] + s, uint32_t(s), n);
      if (r.has_tail()) r.store(tail[b], r.tail(), n);
    }
    if (shape.y.is_linear) return;
    __syncwarp();
#pragma unroll
    for (int b = 0; b < kBatch; ++b) row(b).drain(stage(b));
  }
};

template <class T, int kSlots, int kBatch, bool kActivates, RowParameters kParameters>
__global__ __launch_bounds__(kMvnWarpThreads) void mvn_warp_kernel(const MvnArgs<T> args,
                                                                   const MvnRowShape shape,
                                                                   int lanes) {
  MvnWarpRows<T, kSlots, kBatch, kActivates, kParameters> rows(args, shape, uint32_t(lanes));
  rows.read();
  Normalizer<Acc<T>> normalizer;
  if (args.has_statistics()) normalizer = rows.normalizer();
  if (args.y) rows.write(normalizer);
}

}  // namespace cudml::cuda
