// Normalization of rows that a block keeps on chip, in registers or in shared memory.
#pragma once

#include "cuda/mvn_row_parts.cuh"

namespace cudml::cuda {

/// What the row kernels differ in: fn(slot, k) for each access k of this thread, by reference.
template <class T, int kSlots>
struct RegisterSlots {
  RowSlot<T> slot[kSlots];

  /// Takes the row's accesses from where they are.
  template <class Row, class Fn>
  __device__ __forceinline__ void read(const Row& row, const RowSlot<T>* from, const Fn& fn) {
#pragma unroll
    for (int s = 0; s < kSlots; ++s)
      if (row.slot(s) < row.slots) slot[s] = from[row.slot(s)];
    for_each(row, fn);
  }

  /// The row's first element, to the first thread, whose tail this is.
  template <class Row>
  __device__ __forceinline__ Acc<T> first(const Row& row, T tail) const {
    return load_as_acc(row.slots > 0 ? slot[0].v[0] : tail);
  }

  template <class Row, class Fn>
  __device__ __forceinline__ void for_each(const Row& row, const Fn& fn) {
#pragma unroll
    for (int s = 0; s < kSlots; ++s)
      if (row.slot(s) < row.slots) fn(slot[s], row.slot(s));
  }

  template <class Row>
  __device__ __forceinline__ void write(const Row& row, RowSlot<T>* to,
                                        const Normalizer<Acc<T>>& n) const {
#pragma unroll
    for (int s = 0; s < kSlots; s += kMvnParameterSlots)
      row.template write<kMvnParameterSlots>(to, slot + s, uint32_t(s), n);
  }
};

/// One row by all threads of the block. Each thread meets its own accesses only.
template <class T, bool kActivates, RowParameters kParameters, class Slots>
__device__ __forceinline__ void mvn_block_row(const MvnArgs<T>& args, const MvnRowShape& shape,
                                              Slots& slots) {
  using A = Acc<T>;
  DEVICE_SHARED(first_scratch, Raw<double>[32]);
  DEVICE_SHARED(second_scratch, Raw<TwoSums>[32]);
  DEVICE_SHARED(one, A);  // of the row's elements
  const MvnOffsets group = args.kept.at(blockIdx.x);
  MvnRow<T, kActivates, kParameters> row(args, shape, group, true, threadIdx.x, blockDim.x);
  RowSlot<T>* stage = nullptr;
  if (shape.is_staged()) {
    DYNAMIC_SHARED(memory, RowSlot<T>);
    stage = memory;
  }
  if (!shape.x.is_linear) {
    row.fill(stage);
    __syncthreads();
  }
  const RowSlot<T>* from = shape.x.is_linear ? row.x_slots() : stage;
  A sum = 0;
  slots.read(row, from, [&](RowSlot<T>& slot, uint32_t) { sum += slot_sum(slot); });
  T tail = {};
  if (row.has_tail()) {
    tail = row.load(row.tail());
    sum += load_as_acc(tail);
  }
  Normalizer<A> normalizer;
  if (args.has_statistics()) {
    A pivot = 0;
    if (args.use_mean) {
      if (threadIdx.x == 0) one = slots.first(row, tail);
      const A mean = pivot_of<A>(block_all_sum(double(sum), first_scratch), shape.length);
      pivot = pivot_near(mean, shape.length, [&] { return one; });
    }
    PivotSums<A> part;
    slots.for_each(row, [&](RowSlot<T>& slot, uint32_t) { part.add(slot, pivot); });
    if (row.has_tail()) part.add(load_as_acc(tail), pivot);
    const TwoSums sums = block_all_sum(part.wide(), second_scratch);
    normalizer = args.normalizer(args.moments(shape.length, pivot, sums.first, sums.second),
                                 blockIdx.x, threadIdx.x == 0);
  }
  row.fetch_operands();
  RowSlot<T>* to = shape.y.is_linear ? row.y_slots() : stage;
  slots.write(row, to, normalizer);
  if (row.has_tail()) row.store(tail, row.tail(), normalizer);
  if (!shape.y.is_linear) {
    __syncthreads();
    row.drain(stage);
  }
}

template <class T, bool kActivates, RowParameters kParameters>
__global__ __launch_bounds__(kMvnMostBlockThreads) void mvn_block_kernel(const MvnArgs<T> args,
                                                                         const MvnRowShape shape) {
  RegisterSlots<T, kMvnBlockSlots> slots;
  mvn_block_row<T, kActivates, kParameters>(args, shape, slots);
}

}  // namespace cudml::cuda
