// Gradients of windows of 3x3, one or two apart, over packed columns: a thread walks down a strip
// of the result and keeps what the windows above have left. Neighbouring threads read and write
// neighbouring columns, so that rows may begin anywhere.
#pragma once

#include "cuda/grid.cuh"
#include "cuda/pool_grad_rows.cuh"
#include "math/fused.h"

namespace cudml::cuda {

/// Rows whose loads are on their way together.
inline constexpr int kStripBatch = 4;

/// A thread's place among strips, and offsets of the plane's first elements.
struct StripPlace {
  int32_t lane, strip;  // the column, or what stands for some; the strip's first step
  int32_t slice;
  int32_t x, grad, result;
};

__device__ inline StripPlace place_of(const GradStrips& strips, uint32_t number) {
  StripPlace p;
  uint32_t lane = number;
  uint32_t strip = strips.by_lanes.divide(lane);
  uint32_t slice = strips.by_strips.divide(strip);
  uint32_t plane = strips.axis[0].by_in.divide(slice);
  const int32_t batch = int32_t(strips.by_planes.divide(plane));
  const auto offset = [&](const GradStrides& s) {
    return batch * s.batch[0] + int32_t(plane) * s.batch[1] + int32_t(slice) * s.space[0];
  };
  p.lane = int32_t(lane);
  p.strip = int32_t(strip) * strips.steps;
  p.slice = int32_t(slice);
  p.x = offset(strips.x);
  p.grad = offset(strips.grad);
  p.result = offset(strips.result);
  return p;
}

__device__ __forceinline__ bool is_output(const GradAxis& a, int32_t o) {
  return uint32_t(o) < uint32_t(a.out);
}

/// Taps that a dense window of three counts.
__device__ __forceinline__ int32_t counted_of_three(const GradStrips& s, int axis, int32_t o) {
  PoolAxisOf<int32_t> a = s.axis[axis];
  a.window = 3;
  a.dilation = 1;  // as in every plan that comes here
  return counted_at(a, s.include_padding, o);
}

/// One over what a window of three rows counts of a row's taps, 0 where there is no such window.
__device__ __forceinline__ float column_scale(const GradStrips& s, int32_t window) {
  const int32_t taps = is_output(s.axis[2], window) ? 3 * counted_of_three(s, 2, window) : 0;
  return taps > 0 ? 1 / float(taps) : 0;
}

/// What to multiply by where windows count fewer than three rows: at least 1, so that a sum
/// overflows only where that of the quotients does.
__device__ __forceinline__ float row_scale(const GradStrips& s, int32_t window) {
  const GradAxis& h = s.axis[1];
  if (window >= h.full_first && window <= h.full_last) return 1;
  const int32_t rows = is_output(h, window) ? counted_of_three(s, 1, window) : 3;
  return rows == 1 ? 3 : rows == 2 ? 1.5f : 1;
}

/// The sum over the windows of one row, from the left. Gradients are scaled before they are added.
template <class T, int kWindows>
__device__ __forceinline__ float scaled_sum(const T (&grad)[kWindows],
                                            const float (&scale)[kWindows]) {
  float sum = load_as_acc(grad[0]) * scale[0];
#pragma unroll
  for (int j = 1; j < kWindows; ++j) sum = fused(load_as_acc(grad[j]), scale[j], sum);
  return sum;
}

/// What the rows of windows over a row of the result have left, the earliest first.
template <int kRows>
__device__ __forceinline__ float sum_of(const float (&above)[kRows], float last) {
  float sum = above[0];
#pragma unroll
  for (int i = 1; i < kRows; ++i) sum += above[i];
  return sum + last;
}

/// The gradients of the windows over a column in some rows of windows from `row` on, at `from`, 0
/// where there is none; moves on behind them.
template <class T, int kWindows>
__device__ __forceinline__ void load_windows(const GradStrips& s, int32_t row,
                                             const float (&scale)[kWindows], const T*& from,
                                             T (&loaded)[kStripBatch][kWindows]) {
#pragma unroll
  for (int i = 0; i < kStripBatch; ++i) {
    const bool is_row = is_output(s.axis[1], row + i);
#pragma unroll
    for (int j = 0; j < kWindows; ++j) {
      loaded[i][j] = T{};
      if (is_row && scale[j] > 0) loaded[i][j] = from[j];
    }
    from += s.grad.space[1];
  }
}

/// One column of a strip. A step is a row of windows and what it completes: a row of the result
/// where windows are one apart, else two.
template <int kStride, class T>
__device__ __forceinline__ void walk_column(const GradStrips& s, const StripPlace& p,
                                            const T* __restrict__ grad, T* __restrict__ result) {
  constexpr int kWindows = kStride == 1 ? 3 : 2, kBehind = kWindows - 1;
  const GradAxis& h = s.axis[1];
  const int32_t at = p.lane + s.axis[2].start;
  const int32_t column = (kStride == 1 ? at : at / 2) - kBehind;
  const int32_t row = h.start / kStride + p.strip;  // of windows, the last over the first step
  float scale[kWindows];
#pragma unroll
  for (int j = 0; j < kWindows; ++j) scale[j] = column_scale(s, column + j);
  if (kStride == 2 && at % 2 == 1) scale[0] = 0;  // its window ends before this column
  // Rows before the plane may be further away than 32 bits hold.
  const T* from = grad + p.grad + column + int64_t{row - kBehind} * s.grad.space[1];
  int32_t r = (row - kBehind) * kStride - h.start;
  T* to = result + p.result + p.lane + int64_t{r} * s.result.space[1];
  float above[kBehind] = {};  // sums of rows of windows, the earliest first
  const int32_t steps = min(s.steps, s.end - row);
  for (int32_t step = -kBehind; step < steps;) {
    T loaded[kStripBatch][kWindows];
    load_windows(s, row + step, scale, from, loaded);
#pragma unroll
    for (int i = 0; i < kStripBatch; ++i, ++step, r += kStride) {
      const float sum = scaled_sum(loaded[i], scale) * row_scale(s, row + step);
      const bool is_own = uint32_t(step) < uint32_t(steps);
      if (is_own && r >= 0) *to = store_as<T>(sum_of(above, sum));
      to += s.result.space[1];
      if constexpr (kStride == 2) {
        if (is_own && r + 1 < h.in) *to = store_as<T>(sum);
        to += s.result.space[1];
      }
      above[0] = above[kBehind - 1];
      above[kBehind - 1] = sum;
    }
  }
}

template <class T>
__global__ void __launch_bounds__(kPoolGradThreads, kPoolGradBlocks)
    average_pool_grad_strips_kernel(GradStrips strips, const T* __restrict__ grad,
                                    T* __restrict__ result) {
  const uint32_t step = loop_step<kPoolGradThreads>();
  for (uint32_t n = loop_begin<kPoolGradThreads>(); n < strips.units; n += step) {
    const StripPlace p = place_of(strips, n);
    if (strips.axis[2].stride == 1)
      walk_column<1>(strips, p, grad, result);
    else
      walk_column<2>(strips, p, grad, result);
  }
}

}  // namespace cudml::cuda
