// The gradient of maxima of 3x3, two apart, where rows are whole vectors: a thread finds the
// winners of all windows over a vector of columns, so that it asks no neighbour, and loads and
// stores 16 bytes of a row at a time. Sums are those of pool_grad_max_strips.cuh, bit for bit.
#pragma once

#include "cuda/pool_grad_max_strips.cuh"
#include "cuda/pool_grad_vector_strips.cuh"

namespace cudml::cuda {

/// The columns under a vector's windows in a row of x: the vector, 1 + kLeft before it and the
/// others behind, packed while they are on their way.
template <int kLeft, class T>
struct TapsOfVector {
  using Over = OverVector<2, kLeft, T>;
  static constexpr int kBefore = 1 + kLeft, kBeside = 3, kTaps = Over::kN + kBeside;
  static_assert(kTaps == 2 * Over::kCount + 1);
  Carrier own;
  T beside[kBeside];

  /// `from` is the vector's place in the row; real[i] says whether column i beside it is inside.
  __device__ __forceinline__ void load(const T* from, bool is_row, const bool (&real)[kBeside]) {
    constexpr int kN = Over::kN;
    Vector<T, kN> none;
#pragma unroll
    for (int e = 0; e < kN; ++e) none.v[e] = store_as<T>(max_of_none<T>());
    own = std::bit_cast<Carrier>(none);
    if (is_row) own = *reinterpret_cast<const Carrier*>(from);
#pragma unroll
    for (int i = 0; i < kBeside; ++i) {
      beside[i] = store_as<T>(max_of_none<T>());
      if (is_row && real[i]) beside[i] = from[i < kBefore ? i - kBefore : kN + i - kBefore];
    }
  }

  /// The winners of this row in each window.
  __device__ __forceinline__ void find(RowWinner (&winners)[Over::kCount]) const {
    const auto inner = unpacked<T>(own);
    T taps[kTaps];
#pragma unroll
    for (int i = 0; i < kTaps; ++i) {
      const int column = i - kBefore;
      taps[i] = column < 0 ? beside[i] : column < Over::kN ? inner.v[column] : beside[i - Over::kN];
    }
#pragma unroll
    for (int w = 0; w < Over::kCount; ++w) {
      const T three[3] = {taps[2 * w], taps[2 * w + 1], taps[2 * w + 2]};
      winners[w] = winner_of_row(three);
    }
  }
};

/// A row of windows over a vector: the winning tap of each, -1 where there is none, and its
/// gradient.
template <int kLeft, class T>
struct WindowsOfVector {
  using Over = OverVector<2, kLeft, T>;
  int32_t tap[Over::kCount];
  float grad[Over::kCount];

  __device__ __forceinline__ void clear() {
#pragma unroll
    for (int w = 0; w < Over::kCount; ++w) {
      tap[w] = -1;
      grad[w] = 0;
    }
  }

  /// Adds what the windows give to the vector's columns, which see row `row` of them.
  __device__ __forceinline__ void give(int32_t row, float (&sums)[Over::kN]) const {
#pragma unroll
    for (int j = 0; j < Over::kN; ++j) {
      const int last = Over::last_over(j), place = Over::place_in_last(j);
      if (place == 0 && tap[last - 1] == 3 * row + 2) sums[j] += grad[last - 1];
      if (tap[last] == 3 * row + place) sums[j] += grad[last];
    }
  }
};

/// Which windows over a vector there are, and which columns beside it.
template <int kLeft, class T>
struct VectorPlace {
  using Over = OverVector<2, kLeft, T>;
  using Taps = TapsOfVector<kLeft, T>;
  bool has_left, has_right, real[Taps::kBeside];
  int32_t first_tap;  // the first real one of the first window's rows

  __device__ __forceinline__ VectorPlace(const GradStrips& s, int32_t lane) {
    const int32_t column = lane * Over::kN, window = lane * Over::kOwn;
    has_left = is_output(s.axis[2], window - 1);
    has_right = is_output(s.axis[2], window + Over::kOwn);
#pragma unroll
    for (int i = 0; i < Taps::kBeside; ++i) {
      const int32_t beside = i - Taps::kBefore + (i < Taps::kBefore ? 0 : Over::kN);
      real[i] = uint32_t(column + beside) < uint32_t(s.axis[2].in);
    }
    first_tap = kLeft == 0 && lane == 0 ? 1 : 0;
  }
  __device__ __forceinline__ bool has(int w) const {
    return w < kLeft ? has_left : w >= kLeft + Over::kOwn ? has_right : true;
  }
};

/// The winners of a row of windows whose rows begin at `row`.
template <int kLeft, class T>
__device__ __forceinline__ void find_windows(
    const VectorPlace<kLeft, T>& place, bool exists, int32_t row,
    const RowWinner (&rows)[3][OverVector<2, kLeft, T>::kCount],
    const GradsOverVector<2, kLeft, T>& grads, WindowsOfVector<kLeft, T>& windows) {
  constexpr int kCount = OverVector<2, kLeft, T>::kCount;
  grads.widened(windows.grad);
#pragma unroll
  for (int w = 0; w < kCount; ++w) {
    const RowWinner three[3] = {rows[0][w], rows[1][w], rows[2][w]};
    const int32_t tap = winner_of(three, row, w == 0 ? place.first_tap : 0);
    windows.tap[w] = exists && place.has(w) ? tap : -1;
  }
}

template <int kLeft, class T>
__device__ __forceinline__ void walk_winners(const GradStrips& s, const StripPlace& p,
                                             const T* __restrict__ x, const T* __restrict__ grad,
                                             T* __restrict__ result) {
  using Over = OverVector<2, kLeft, T>;
  constexpr int kN = Over::kN, kCount = Over::kCount;
  const GradAxis& h = s.axis[1];
  const VectorPlace<kLeft, T> place(s, p.lane);
  int32_t row = h.start / 2 + p.strip - 1, r = 2 * row - h.start;
  // Rows before the plane may be further away than 32 bits hold.
  const T* taps_at = x + p.x + p.lane * kN + int64_t{r} * s.x.space[1];
  const T* from = grad + p.grad + p.lane * Over::kOwn + int64_t{row} * s.grad.space[1];
  T* to = result + p.result + p.lane * kN + int64_t{r} * s.result.space[1];
  WindowsOfVector<kLeft, T> above, here;
  above.clear();
  RowWinner rows[3][kCount];
  const auto is_row = [&](int32_t number) { return uint32_t(number) < uint32_t(h.in); };
  TapsOfVector<kLeft, T> taps[2];
  taps[0].load(taps_at, is_row(r), place.real);
  taps[0].find(rows[0]);
#pragma unroll 1
  for (int32_t step = -1; step < s.steps; ++step, ++row, r += 2) {
    GradsOverVector<2, kLeft, T> grads;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      taps_at += s.x.space[1];
      taps[i].load(taps_at, is_row(r + 1 + i), place.real);
    }
    const bool exists = is_output(h, row);
    grads.load(from, exists, place.has_left, place.has_right);
    from += s.grad.space[1];
    taps[0].find(rows[1]);
    taps[1].find(rows[2]);
    find_windows(place, exists, r, rows, grads, here);
    float upper[kN] = {}, lower[kN] = {};
    above.give(2, upper);
    here.give(0, upper);
    here.give(1, lower);
    if (step >= 0 && is_row(r)) store_vector(to, narrow<T, kN>(upper));
    to += s.result.space[1];
    if (step >= 0 && r + 1 < h.in) store_vector(to, narrow<T, kN>(lower));
    to += s.result.space[1];
    above = here;
#pragma unroll
    for (int w = 0; w < kCount; ++w) rows[0][w] = rows[2][w];
  }
}

template <class T>
__global__ void __launch_bounds__(kPoolGradThreads, kPoolGradBlocks)
    max_pool_grad_vector_strips_kernel(GradStrips strips, const T* __restrict__ x,
                                       const T* __restrict__ grad, T* __restrict__ result) {
  const uint32_t step = loop_step<kPoolGradThreads>();
  for (uint32_t n = loop_begin<kPoolGradThreads>(); n < strips.units; n += step) {
    const StripPlace p = place_of(strips, n);
    if (strips.axis[2].start == 0)
      walk_winners<1>(strips, p, x, grad, result);
    else
      walk_winners<0>(strips, p, x, grad, result);
  }
}

}  // namespace cudml::cuda
