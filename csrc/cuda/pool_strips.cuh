// Averages of 3x3, one apart: a thread walks down one column of outputs and keeps the sums of the
// rows above. Neighbouring threads read and write neighbouring columns, so that rows may begin
// anywhere. The order of additions is that of tiles.
#pragma once

#include "cuda/pool_one.cuh"

namespace cudml::cuda {

/// Rows whose loads are on their way together.
inline constexpr int kAverageBatch = 4;

/// What windows of three count of an axis.
__device__ __forceinline__ int32_t counted_of_three(const PoolShape<int32_t>& s, int axis,
                                                    int32_t o) {
  PoolAxisOf<int32_t> a = s.axis[axis];
  const int32_t begin = o - a.start;
  if (begin >= 0 && begin <= a.in - 3) return 3;
  a.window = 3;
  a.stride = a.dilation = 1;  // as in every plan that comes here, but for single outputs
  return counted_at(a, s.include_padding, o);
}

/// The three taps of a column of windows in some rows of x from `row` on, at `from`, 0 where there
/// is none; moves on behind them.
template <class T>
__device__ __forceinline__ void load_threes(const PoolShape<int32_t>& s, int32_t row,
                                            const bool (&real)[3], const T*& from,
                                            T (&loaded)[kAverageBatch][3]) {
#pragma unroll
  for (int i = 0; i < kAverageBatch; ++i) {
    const bool is_row = uint32_t(row + i) < uint32_t(s.axis[1].in);
#pragma unroll
    for (int c = 0; c < 3; ++c) {
      loaded[i][c] = T{};
      if (is_row && real[c]) loaded[i][c] = from[c];
    }
    from += s.x.space[1];
  }
}

/// `rows` outputs of a column from row `first` on.
template <class T>
__device__ __forceinline__ void average_column(const PoolShape<int32_t>& s,
                                               const PoolPlaceOf<int32_t>& place, int32_t first,
                                               int32_t rows, const T* x, T* y) {
  using V = Acc<T>;
  const int32_t column = place.space[2], from_column = column - s.axis[2].start;
  const V columns = V(counted_of_three(s, 2, column));
  bool real[3];
#pragma unroll
  for (int c = 0; c < 3; ++c) real[c] = uint32_t(from_column + c) < uint32_t(s.axis[2].in);
  int32_t row = first - s.axis[1].start;
  // Rows before the plane may be further away than 32 bits hold.
  const T* from = x + place.plane(s.x) + place.space[0] * s.x.space[0] +
                  int64_t{row} * s.x.space[1] + from_column;
  T* to = y + place.plane(s.y) + place.space[0] * s.y.space[0] + first * s.y.space[1] +
          column * s.y.space[2];
  V above[2] = {};  // sums of rows of taps, the upper one first
  const int32_t end = min(first + rows, s.axis[1].out);
  for (int32_t o = first - 2; o < end;) {
    T loaded[kAverageBatch][3];
    load_threes(s, row, real, from, loaded);
    row += kAverageBatch;
#pragma unroll
    for (int i = 0; i < kAverageBatch; ++i, ++o) {
      const T(&taps)[3] = loaded[i];
      const V sum = load_as_acc(taps[0]) + load_as_acc(taps[1]) + load_as_acc(taps[2]);
      if (o >= first && o < end) {
        const V all = V{0} + above[0] + above[1] + sum;
        *to = store_as<T>(average_of(all, V(counted_of_three(s, 1, o)) * columns));
        to += s.y.space[1];
      }
      above[0] = above[1];
      above[1] = sum;
    }
  }
}

}  // namespace cudml::cuda
