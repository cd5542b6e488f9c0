// Averages of 3x3, one apart, where rows are whole vectors: a thread walks down the columns of one.
// Sums are those of single columns, bit for bit.
#pragma once

#include "cuda/pool_beside.cuh"
#include "cuda/pool_strips.cuh"

namespace cudml::cuda {

/// `rows` outputs of a vector of columns from row `first` on; windows begin one column before
/// theirs, and there are as many as columns.
template <class T>
__device__ __forceinline__ void average_vector(const PoolShape<int32_t>& s,
                                               const PoolPlaceOf<int32_t>& place, int32_t first,
                                               int32_t rows, const T* x, T* y) {
  constexpr int kN = kVector<T>;
  const int32_t column = place.space[2];
  const bool has_left = column > 0, has_right = column + kN < s.axis[2].in;
  float columns[kN];
#pragma unroll
  for (int j = 0; j < kN; ++j) columns[j] = float(counted_of_three(s, 2, column + j));
  int32_t row = first - s.axis[1].start;
  // Rows before the plane may be further away than 32 bits hold.
  const T* from =
      x + place.plane(s.x) + place.space[0] * s.x.space[0] + int64_t{row} * s.x.space[1] + column;
  T* to = y + place.plane(s.y) + place.space[0] * s.y.space[0] + first * s.y.space[1] + column;
  float above[2][kN] = {};  // sums of rows of taps, the upper one first
  const int32_t end = min(first + rows, s.axis[1].out);
  for (int32_t o = first - 2; o < end;) {
    BesideVector<kN, 1, 1, T> loaded[kAverageBatch];
#pragma unroll
    for (int i = 0; i < kAverageBatch; ++i, ++row, from += s.x.space[1])
      loaded[i].load(from, uint32_t(row) < uint32_t(s.axis[1].in), has_left, has_right);
#pragma unroll
    for (int i = 0; i < kAverageBatch; ++i, ++o) {
      float taps[kN + 2], value[kN];
      loaded[i].widened(taps);
      const float counted = o >= first && o < end ? float(counted_of_three(s, 1, o)) : 0;
#pragma unroll
      for (int j = 0; j < kN; ++j) {
        const float sum = taps[j] + taps[j + 1] + taps[j + 2];
        value[j] = average_of(0.0f + above[0][j] + above[1][j] + sum, counted * columns[j]);
        above[0][j] = above[1][j];
        above[1][j] = sum;
      }
      if (o < first || o >= end) continue;
      store_whole(to, narrow<T, kN>(value));
      to += s.y.space[1];
    }
  }
}

/// `order` counts columns, or vectors of them, and strips of `rows` outputs.
template <class T>
__device__ __forceinline__ void average_strips(const PoolShape<int32_t>& s,
                                               const OutputOrder& order, uint32_t strips,
                                               int32_t rows, bool has_vectors, const T* x, T* y) {
  const uint32_t step = loop_step<kPoolThreads>();
  for (uint32_t i = loop_begin<kPoolThreads>(); i < strips; i += step) {
    PoolPlaceOf<int32_t> place = order.place(i);
    if (has_vectors) {
      place.space[2] *= kVector<T>;
      average_vector(s, place, place.space[1] * rows, rows, x, y);
    } else {
      average_column(s, place, place.space[1] * rows, rows, x, y);
    }
  }
}

}  // namespace cudml::cuda
