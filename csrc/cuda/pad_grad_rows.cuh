// The gradient of padding row by row, in aligned vectors of 16 bytes of the result: which rows of
// the incoming gradient add up to a row, mostly one, is found once, by one thread, and shared.
#pragma once

#include "cuda/convert.cuh"
#include "cuda/pad_grad_kernels.h"
#include "cuda/pad_vectors.cuh"

namespace cudml::cuda {

/// Where the r-th of the rows that add up to row `number` begins; they ascend.
__device__ inline int64_t row_from(const PadGradRows& rows, uint32_t number, int32_t r) {
  int64_t from = 0;
  for (int d = rows.outer_rank - 1; d >= 0; --d) {
    uint32_t at = number;
    number = rows.outer[d].in.divide(at);
    const Preimages p = preimages_of(rows.outer[d].axis, int64_t(at));
    const int32_t count = int32_t(p.count), rest = r / count;
    from += p.at(r - rest * count) * rows.outer[d].axis.grad_stride;
    r = rest;
  }
  return from;
}

__device__ inline PadGradRow find_row(const PadGradRows& rows, uint32_t number) {
  PadGradRow row;
  row.number = number;
  row.y = 0;
  row.count = 1;
  uint32_t rest = number;
  for (int d = rows.outer_rank - 1; d >= 0; --d) {
    uint32_t at = rest;
    rest = rows.outer[d].in.divide(at);
    row.y += int64_t(at) * rows.outer[d].axis.stride;
    row.count *= int32_t(preimages_of(rows.outer[d].axis, int64_t(at)).count);
  }
  for (int32_t r = 0; r < PadGradRow::kKept; ++r)
    if (r < row.count) row.from[r] = row_from(rows, number, r);
  return row;
}

/// The first of the r-th row's elements.
template <class T>
__device__ __forceinline__ const T* row_at(const PadGradRows& rows, const PadGradRow& row,
                                           int32_t r, const T* grad) {
  return grad + (r < PadGradRow::kKept ? row.from[r] : row_from(rows, row.number, r));
}

/// Element i of a row.
template <class T>
__device__ inline T gathered(const PadGradRows& rows, const PadGradRow& row, const T* grad,
                             int32_t i) {
  const PreimagesOf<int32_t> p = preimages_of(rows.axis, i);
  Acc<T> sum = 0;
  for (int32_t r = 0; r < row.count; ++r) {
    const T* const from = row_at(rows, row, r, grad);
    for (int32_t k = 0; k < p.count; ++k) {
      const Acc<T> term = load_as_acc(from[p.at(k)]);
      sum = r + k == 0 ? term : sum + term;
    }
  }
  return store_as<T>(sum);
}

/// Elements at `from` and on, of which `before` stand before them in the row and `behind` follow.
template <class T>
__device__ __forceinline__ Vector<T, kVector<T>> load_inner(const T* from, int32_t before,
                                                            int32_t behind) {
  constexpr int kN = kVector<T>;
  if (before >= kN && behind >= 2 * kN)
    return std::bit_cast<Vector<T, kN>>(load_unaligned(reinterpret_cast<const char*>(from)));
  Vector<T, kN> vector;
#pragma unroll
  for (int e = 0; e < kN; ++e) vector.v[e] = from[e];
  return vector;
}

/// kVector elements from element `at` on, each of which shows at one position of the rows alone.
template <class T>
__device__ __forceinline__ Vector<T, kVector<T>> inner_sum(const PadGradRows& rows,
                                                           const PadGradRow& row, const T* grad,
                                                           int32_t at) {
  constexpr int kN = kVector<T>;
  const int32_t first = rows.axis.start + at, behind = rows.axis.out - first;
  const auto vector = load_inner(grad + row.from[0] + first, first, behind);
  if (row.count == 1) return vector;
  Acc<T> sum[kN], terms[kN];
  widen(vector, sum);
#pragma unroll 1
  for (int32_t r = 1; r < row.count; ++r) {
    widen(load_inner(row_at(rows, row, r, grad) + first, first, behind), terms);
#pragma unroll
    for (int e = 0; e < kN; ++e) sum[e] += terms[e];
  }
  return narrow<T, kN>(sum);
}

template <class T>
__global__ void __launch_bounds__(kPadGradThreads)
    pad_grad_rows_kernel(PadGradRows rows, const T* __restrict__ grad, T* __restrict__ y) {
  constexpr int32_t kN = kVector<T>;
  DYNAMIC_SHARED(table, PadGradRow);
  const auto find = [&](uint32_t row) { return find_row(rows, row); };
  for_tiles(rows.tiles, table, find, [&](const RowTile& tile) {
    const uint32_t n = tile.units();
    for (uint32_t number = threadIdx.x; number < n; number += kPadGradThreads) {
      uint32_t unit = number;
      const PadGradRow& row = table[rows.tiles.tile_rows == 1 ? 0 : rows.by_units.divide(unit)];
      const int32_t phase = int32_t(phase_of(y + row.y) / sizeof(T));
      const int32_t at = int32_t(tile.begin + unit) * kN - phase;
      T* const to = y + row.y + at;
      if (at >= rows.axis.inner_begin && at + kN <= rows.axis.inner_end)
        store_whole(to, inner_sum(rows, row, grad, at));
      else
        write_vector(to, -at, rows.axis.in - at,
                     [&](int32_t e) { return gathered(rows, row, grad, at + e); });
    }
  });
}

}  // namespace cudml::cuda
