// Gradients of windows of 2x2, 2 apart, without padding before them: no windows overlap, so a
// thread takes all of a few windows and writes a vector of two rows. Max needs no winners in
// memory.
#pragma once

#include "cuda/grid.cuh"
#include "cuda/pool_grad_rows.cuh"
#include "math/reducer.h"

namespace cudml::cuda {

/// A unit's place, and offsets of its first elements.
struct PairPlace {
  int32_t column, cell, slice;  // the vector among columns, the window's row, the slice
  int32_t x, grad, result;
};

__device__ inline PairPlace place_of(const GradPairs& pairs, uint32_t number) {
  PairPlace p;
  uint32_t column = number;
  uint32_t cell = pairs.by_columns.divide(column);
  uint32_t slice = pairs.by_cells.divide(cell);
  uint32_t plane = pairs.axis[0].by_in.divide(slice);
  const int32_t batch = int32_t(pairs.by_planes.divide(plane));
  const auto offset = [&](const GradStrides& s, int32_t row) {
    return batch * s.batch[0] + int32_t(plane) * s.batch[1] + int32_t(slice) * s.space[0] +
           row * s.space[1];
  };
  p.column = int32_t(column);
  p.cell = int32_t(cell);
  p.slice = int32_t(slice);
  p.x = offset(pairs.x, 2 * p.cell) + p.column * pairs.columns;
  p.grad = offset(pairs.grad, p.cell) + p.column * (pairs.columns / 2);
  p.result = offset(pairs.result, 2 * p.cell) + p.column * pairs.columns;
  return p;
}

/// kN elements at p, aligned; the first `count` exist.
template <int kN, class T>
__device__ __forceinline__ Vector<T, kN> load_columns(const T* p, int32_t count) {
  if (count >= kN) return load_vector<kN>(p);
  Vector<T, kN> vector;
#pragma unroll
  for (int v = 0; v < kN; ++v) vector.v[v] = v < count ? p[v] : T{};
  return vector;
}

/// Which of the four taps wins: 2 * row + column. `right` and `below` say which taps exist.
__device__ inline int winner_of(float a, float b, float c, float d, bool right, bool below) {
  float best = a;
  int winner = 0;
  const auto offer = [&](float v, int tap, bool exists) {
    if (!exists || !wins(best, v)) return;
    best = v;
    winner = tap;
  };
  offer(b, 1, right);
  offer(c, 2, below);
  offer(d, 3, right && below);
  return winner;
}

/// Gives each window's gradient to the winner among its taps in the two rows of x.
template <class T, int kWindows>
__device__ __forceinline__ void give_to_winners(const T* top_row, const T* bottom_row,
                                                int32_t columns, bool below,
                                                const Vector<T, kWindows>& grad,
                                                float (&rows)[2][2 * kWindows]) {
  constexpr int kN = 2 * kWindows;
  const Vector<T, kN> top = load_columns<kN>(top_row, columns);
  const Vector<T, kN> bottom = load_columns<kN>(bottom_row, below ? columns : 0);
#pragma unroll
  for (int i = 0; i < kN; i += 2) {
    const int winner =
        winner_of(load_as_acc(top.v[i]), load_as_acc(top.v[i + 1]), load_as_acc(bottom.v[i]),
                  load_as_acc(bottom.v[i + 1]), i + 1 < columns, below);
    const float value = load_as_acc(grad.v[i / 2]) + 0.0f;  // no -0, as in a sum of several
#pragma unroll
    for (int tap = 0; tap < 4; ++tap) rows[tap / 2][i + tap % 2] = tap == winner ? value : 0;
  }
}

/// Gives each window's gradient, divided by what it counts, to all of its taps.
template <class T, int kWindows>
__device__ __forceinline__ void give_to_all(const GradPairs& pairs, const PairPlace& p,
                                            int32_t windows, const Vector<T, kWindows>& grad,
                                            float (&rows)[2][2 * kWindows]) {
#pragma unroll
  for (int k = 0; k < kWindows; ++k) {
    const int32_t o = p.column * kWindows + k;
    float value = load_as_acc(grad.v[k]);
    if (p.cell <= pairs.axis[1].full_last && o <= pairs.axis[2].full_last)
      value *= pairs.inverse;
    else if (k < windows)
      value /= divisor_of(pairs, p.slice, p.cell, o);
    value += 0.0f;  // likewise
#pragma unroll
    for (int tap = 0; tap < 4; ++tap) rows[tap / 2][2 * k + tap % 2] = value;
  }
}

template <class T, bool kIsMax>
__global__ void __launch_bounds__(kPoolGradThreads)
    pool_grad_pairs_kernel(GradPairs pairs, const T* __restrict__ x, const T* __restrict__ grad,
                           T* __restrict__ result) {
  constexpr int kN = kVector<T>, kWindows = kN / 2;
  const GradAxis &h = pairs.axis[1], &w = pairs.axis[2];
  const uint32_t step = loop_step<kPoolGradThreads>();
  for (uint32_t n = loop_begin<kPoolGradThreads>(); n < pairs.units; n += step) {
    const PairPlace p = place_of(pairs, n);
    const int32_t columns = w.in - p.column * kN;
    const int32_t windows = p.cell < h.out ? w.out - p.column * kWindows : 0;
    const bool below = 2 * p.cell + 1 < h.in;
    const Vector<T, kWindows> g = load_columns<kWindows>(grad + p.grad, windows);
    float rows[2][kN];
    if constexpr (kIsMax)
      give_to_winners(x + p.x, x + p.x + pairs.x.space[1], columns, below, g, rows);
    else
      give_to_all(pairs, p, windows, g, rows);
    store_columns(result + p.result, 0, columns, rows[0]);
    if (below) store_columns(result + p.result + pairs.result.space[1], 0, columns, rows[1]);
  }
}

}  // namespace cudml::cuda
