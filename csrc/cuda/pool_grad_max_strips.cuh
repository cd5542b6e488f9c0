// The gradient of maxima of 3x3, two apart, in one launch: a thread finds the winners of a column
// of windows and asks its neighbour for those of the next, so that x is read once and no winner is
// written.
#pragma once

#include "cuda/pool_grad_strips.cuh"
#include "math/reducer.h"

namespace cudml::cuda {

/// Rows of windows whose loads are on their way together.
inline constexpr int kWinnerBatch = 2;

/// The best of a row's three taps, and which it is.
struct RowWinner {
  float best;
  int32_t tap;
};

template <class T>
__device__ __forceinline__ RowWinner winner_of_row(const T (&taps)[3]) {
  RowWinner row{load_as_acc(taps[0]), 0};
#pragma unroll
  for (int c = 1; c < 3; ++c) {
    const float v = load_as_acc(taps[c]);
    const bool take = wins(row.best, v);
    row.best = take ? v : row.best;
    row.tap = take ? c : row.tap;
  }
  return row;
}

/// One column of windows, as its thread sees them.
template <class T>
struct WindowColumn {
  const T* x;             // at the first tap of the next row
  bool real[3];           // which of its columns lie inside
  bool exists;            // this column of windows
  int32_t first_tap = 0;  // real one of a row

  __device__ __forceinline__ WindowColumn(const GradStrips& s, int32_t window, bool is_unit,
                                          const T* row)
      : x(row + window * 2 - s.axis[2].start), exists(is_unit && is_output(s.axis[2], window)) {
    const GradAxis& w = s.axis[2];
    const int32_t column = window * 2 - w.start;
#pragma unroll
    for (int c = 0; c < 3; ++c) real[c] = exists && uint32_t(column + c) < uint32_t(w.in);
    first_tap = max(-column, 0);
  }

  /// The next row, whose number is `row`.
  __device__ __forceinline__ void load(const GradStrips& s, int32_t row, T (&taps)[3]) {
    const bool is_row = uint32_t(row) < uint32_t(s.axis[1].in);
#pragma unroll
    for (int c = 0; c < 3; ++c) {
      taps[c] = store_as<T>(max_of_none<T>());
      if (is_row && real[c]) taps[c] = x[c];
    }
    x += s.x.space[1];
  }
};

/// The number of a window's winning tap, its first real one where none is more than nothing. Its
/// rows begin at `row`.
__device__ __forceinline__ int32_t winner_of(const RowWinner (&rows)[3], int32_t row,
                                             int32_t first_tap) {
  float best = max_of_none<float>();
  int32_t tap = max(-row, 0) * 3 + first_tap;
#pragma unroll
  for (int k = 0; k < 3; ++k) {
    const bool take = wins(best, rows[k].best);
    best = take ? rows[k].best : best;
    tap = take ? 3 * k + rows[k].tap : tap;
  }
  return tap;
}

/// The two windows over a thread's columns in one row of windows, the left one first; `tap` is -1
/// where there is none.
struct WindowPair {
  int32_t tap[2] = {-1, -1};
  float grad[2] = {};
};

/// Adds what the windows give to a thread's columns, which see row `row` of them. Where windows
/// begin at even places, the first column is the left window's last and the right one's first, and
/// the second the right one's middle; else one less and one more.
template <bool kIsEven>
__device__ __forceinline__ void give(const WindowPair& pair, int32_t row, float (&sums)[2]) {
  constexpr int kShared = kIsEven ? 0 : 1;  // the column under both windows
  if (!kIsEven && pair.tap[0] == 3 * row + 1) sums[0] += pair.grad[0];
  if (pair.tap[0] == 3 * row + 2) sums[kShared] += pair.grad[0];
  if (pair.tap[1] == 3 * row) sums[kShared] += pair.grad[1];
  if (kIsEven && pair.tap[1] == 3 * row + 1) sums[1] += pair.grad[1];
}

/// Writes the first `count` of two neighbours.
template <class T>
__device__ __forceinline__ void store_pair(T* to, int32_t count, bool is_aligned,
                                           const float (&sums)[2]) {
  Vector<T, 2> pair;
  pair.v[0] = store_as<T>(sums[0]);
  pair.v[1] = store_as<T>(sums[1]);
  if (is_aligned) return store_vector(to, pair);
  if (count >= 1) to[0] = pair.v[0];
  if (count >= 2) to[1] = pair.v[1];
}

/// A thread's strip of two columns of the result: where its next row goes, and how much of it.
template <class T>
struct ColumnPair {
  T* to;
  int32_t count;
  bool is_aligned;

  __device__ __forceinline__ ColumnPair(const GradStrips& s, T* to, int32_t count)
      : to(to), count(count) {
    const auto bits = reinterpret_cast<uintptr_t>(to) | uint32_t(s.result.space[1]) * sizeof(T);
    is_aligned = count >= 2 && bits % sizeof(Vector<T, 2>) == 0;
  }
  __device__ __forceinline__ void store(const GradStrips& s, bool is_own, const float (&sums)[2]) {
    if (is_own) store_pair(to, count, is_aligned, sums);
    to += s.result.space[1];
  }
};

/// Both windows over a thread's columns: its own, and that of the lane beside it. All lanes of the
/// warp must call it.
template <bool kIsEven>
__device__ __forceinline__ WindowPair with_neighbour(int32_t tap, float grad) {
  const int32_t lane = int32_t(threadIdx.x % 32) + (kIsEven ? -1 : 1);
  const int32_t other_tap = __shfl_sync(0xffffffff, tap, lane);
  const float other = __shfl_sync(0xffffffff, grad, lane);
  if (kIsEven) return {{other_tap, tap}, {other, grad}};
  return {{tap, other_tap}, {grad, other}};
}

/// Two rows of x and the gradient for each of some rows of windows, on their way together.
template <class T>
struct WinnerBatch {
  T taps[kWinnerBatch][2][3], grad[kWinnerBatch];

  __device__ __forceinline__ void load(const GradStrips& s, WindowColumn<T>& own, int32_t row,
                                       int32_t window_row, const T*& from) {
#pragma unroll
    for (int i = 0; i < kWinnerBatch; ++i) {
      own.load(s, row + 2 * i + 1, taps[i][0]);
      own.load(s, row + 2 * i + 2, taps[i][1]);
      grad[i] = T{};
      if (own.exists && is_output(s.axis[1], window_row + i)) grad[i] = *from;
      from += s.grad.space[1];
    }
  }
};

/// A strip of the windows of `own`, whose first row is r of the plane and `row` of windows; the
/// windows before the first step only leave something to it.
template <bool kIsEven, class T>
__device__ __forceinline__ void walk_rows(const GradStrips& s, WindowColumn<T> own,
                                          ColumnPair<T> columns, const T* from, int32_t row,
                                          int32_t r) {
  const GradAxis& h = s.axis[1];
  WindowPair above;
  RowWinner rows[3];
  T loaded[3];
  own.load(s, r, loaded);
  rows[0] = winner_of_row(loaded);
#pragma unroll 1
  for (int32_t step = -1; step < s.steps;) {
    WinnerBatch<T> batch;
    batch.load(s, own, r, row, from);
#pragma unroll
    for (int i = 0; i < kWinnerBatch; ++i, ++step, ++row, r += 2) {
      rows[1] = winner_of_row(batch.taps[i][0]);
      rows[2] = winner_of_row(batch.taps[i][1]);
      const bool exists = own.exists && is_output(h, row);
      const int32_t tap = exists ? winner_of(rows, r, own.first_tap) : -1;
      const WindowPair here = with_neighbour<kIsEven>(tap, load_as_acc(batch.grad[i]));
      float upper[2] = {}, lower[2] = {};
      give<kIsEven>(above, 2, upper);
      give<kIsEven>(here, 0, upper);
      give<kIsEven>(here, 1, lower);
      const bool is_own = step >= 0 && step < s.steps;
      columns.store(s, is_own && uint32_t(r) < uint32_t(h.in), upper);
      columns.store(s, is_own && r + 1 < h.in, lower);
      above = here;
      rows[0] = rows[2];
    }
  }
}

/// One warp's units of `first` on. Where windows begin at an even place, a thread's columns are
/// under its own window and the one before, else under its own and the next one.
template <bool kIsEven, class T>
__device__ __forceinline__ void walk_windows(const GradStrips& s, uint32_t first,
                                             const T* __restrict__ x, const T* __restrict__ grad,
                                             T* __restrict__ result) {
  const GradAxis &h = s.axis[1], &w = s.axis[2];
  const uint32_t lane = threadIdx.x % 32, number = first + lane;
  const bool is_unit = number < s.units;
  const StripPlace p = place_of(s, is_unit ? number : 0);
  const int32_t pair = p.lane - kIsEven, window = pair + w.start / 2;
  const bool has_both = is_unit && (kIsEven ? lane > 0 && pair >= 0 : lane < kStripLanes);
  const int32_t row = h.start / 2 + p.strip - 1, r = 2 * row - h.start;
  // Rows before the plane may be further away than 32 bits hold.
  const WindowColumn<T> own(s, window, is_unit, x + p.x + int64_t{r} * s.x.space[1]);
  T* const to = result + p.result + 2 * pair + int64_t{r} * s.result.space[1];
  const ColumnPair<T> columns(s, to, has_both ? w.in - 2 * pair : 0);
  walk_rows<kIsEven>(s, own, columns, grad + p.grad + window + int64_t{row} * s.grad.space[1], row,
                     r);
}

template <class T>
__global__ void __launch_bounds__(kPoolGradThreads, kPoolGradBlocks)
    max_pool_grad_strips_kernel(GradStrips strips, const T* __restrict__ x,
                                const T* __restrict__ grad, T* __restrict__ result) {
  const uint32_t step = loop_step<kPoolGradThreads>() / 32 * kStripLanes;
  uint32_t first = loop_begin<kPoolGradThreads>() / 32 * kStripLanes;
  for (; first < strips.units; first += step) {
    if (strips.axis[2].start % 2 == 0)
      walk_windows<true>(strips, first, x, grad, result);
    else
      walk_windows<false>(strips, first, x, grad, result);
  }
}

}  // namespace cudml::cuda
