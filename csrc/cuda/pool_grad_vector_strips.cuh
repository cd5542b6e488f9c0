// The same strips where rows are whole vectors: a thread walks down the columns of one, so that it
// loads, adds and stores 16 bytes of a row at a time. Sums are those of single columns, bit for
// bit.
#pragma once

#include "cuda/pool_beside.cuh"
#include "cuda/pool_grad_strips.cuh"

namespace cudml::cuda {

/// The windows over the columns of a vector: those that stand at its place, kLeft that begin before
/// it and, kStride apart, those behind. Windows begin 1 before the first column, but 2 apart and
/// with kLeft at it.
template <int kStride, int kLeft, class T>
struct OverVector {
  static constexpr int kN = kVector<T>, kOwn = kN / kStride;
  static constexpr int kCount = kStride == 1 ? kOwn + 2 : kOwn + 1;
  static constexpr int kRight = kCount - kOwn - kLeft;
  static constexpr int kStart = kStride == 1 ? 1 : 1 - kLeft;

  /// The last window over column j, and whether that is its first, second or third column.
  static constexpr int last_over(int j) { return (j + kStart) / kStride + kLeft; }
  static constexpr int place_in_last(int j) { return (j + kStart) % kStride; }
};

/// Gradients of one row of windows over a vector.
template <int kStride, int kLeft, class T>
struct GradsOverVector : BesideVector<OverVector<kStride, kLeft, T>::kOwn, kLeft,
                                      OverVector<kStride, kLeft, T>::kRight, T> {
  using Over = OverVector<kStride, kLeft, T>;

  /// What the row leaves to the vector's columns: scaled_sum of each.
  __device__ __forceinline__ void sums(const float (&scale)[Over::kCount], float rows,
                                       float (&sum)[Over::kN]) const {
    float grad[Over::kCount];
    this->widened(grad);
#pragma unroll
    for (int j = 0; j < Over::kN; ++j) {
      const int last = Over::last_over(j);
      float s = 0;
      if constexpr (kStride == 1) {
        s = grad[last - 2] * scale[last - 2];
        s = fused(grad[last - 1], scale[last - 1], s);
      } else if (Over::place_in_last(j) == 0) {
        s = grad[last - 1] * scale[last - 1];
      }
      sum[j] = fused(grad[last], scale[last], s) * rows;
    }
  }
};

/// Writes a vector of sums, what rows of windows above have left being added first.
template <class T, int kRows>
__device__ __forceinline__ void store_sums(T* to, const float (&above)[kRows][kVector<T>],
                                           const float (&last)[kVector<T>]) {
  constexpr int kN = kVector<T>;
  float total[kN];
#pragma unroll
  for (int j = 0; j < kN; ++j) {
    float rows[kRows];
#pragma unroll
    for (int i = 0; i < kRows; ++i) rows[i] = above[i][j];
    total[j] = sum_of(rows, last[j]);
  }
  store_whole(to, narrow<T, kN>(total));
}

/// One vector's strip, as walk_column has it for a column.
template <int kStride, int kLeft, class T>
__device__ __forceinline__ void walk_vector(const GradStrips& s, const StripPlace& p,
                                            const T* __restrict__ grad, T* __restrict__ result) {
  using Over = OverVector<kStride, kLeft, T>;
  constexpr int kN = Over::kN, kCount = Over::kCount, kBehind = kStride == 1 ? 2 : 1;
  const GradAxis& h = s.axis[1];
  const int32_t own = p.lane * Over::kOwn;
  const int32_t row = h.start / kStride + p.strip;  // of windows, the last over the first step
  float scale[kCount];
#pragma unroll
  for (int i = 0; i < kCount; ++i) scale[i] = column_scale(s, own - kLeft + i);
  const bool has_left = scale[0] > 0, has_right = scale[kCount - 1] > 0;
  // Rows before the plane may be further away than 32 bits hold.
  const T* from = grad + p.grad + own + int64_t{row - kBehind} * s.grad.space[1];
  int32_t r = (row - kBehind) * kStride - h.start;
  T* to = result + p.result + p.lane * kN + int64_t{r} * s.result.space[1];
  float above[kBehind][kN] = {};
  const int32_t steps = min(s.steps, s.end - row);
  for (int32_t step = -kBehind; step < steps;) {
    GradsOverVector<kStride, kLeft, T> loaded[kStripBatch];
#pragma unroll
    for (int i = 0; i < kStripBatch; ++i, from += s.grad.space[1])
      loaded[i].load(from, is_output(h, row + step + i), has_left, has_right);
#pragma unroll
    for (int i = 0; i < kStripBatch; ++i, ++step, r += kStride) {
      float sum[kN];
      loaded[i].sums(scale, row_scale(s, row + step), sum);
      const bool is_own = uint32_t(step) < uint32_t(steps);
      if (is_own && r >= 0) store_sums(to, above, sum);
      to += s.result.space[1];
      if constexpr (kStride == 2) {
        if (is_own && r + 1 < h.in) store_whole(to, narrow<T, kN>(sum));
        to += s.result.space[1];
      }
#pragma unroll
      for (int j = 0; j < kN; ++j) {
        above[0][j] = above[kBehind - 1][j];
        above[kBehind - 1][j] = sum[j];
      }
    }
  }
}

template <class T>
__global__ void __launch_bounds__(kPoolGradThreads, 3)
    average_pool_grad_vector_strips_kernel(GradStrips strips, const T* __restrict__ grad,
                                           T* __restrict__ result) {
  const GradAxis& w = strips.axis[2];
  const uint32_t step = loop_step<kPoolGradThreads>();
  for (uint32_t n = loop_begin<kPoolGradThreads>(); n < strips.units; n += step) {
    const StripPlace p = place_of(strips, n);
    if (w.stride == 1)
      walk_vector<1, 1>(strips, p, grad, result);
    else if (w.start == 0)
      walk_vector<2, 1>(strips, p, grad, result);
    else
      walk_vector<2, 0>(strips, p, grad, result);
  }
}

}  // namespace cudml::cuda
