// dx of a slice of a plane in one pass.
#pragma once

#include <cmath>
#include <limits>

#include "cpu/mvn/formulas.h"
#include "cpu/mvn_grad/cell.h"
#include "cpu/mvn_grad/plane_sums.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

/// Whether a product kept its digits; one that is 0 as a factor is has none to lose.
template <class A>
inline bool is_kept(A product, bool is_zero) {
  constexpr A kLeast = std::numeric_limits<A>::min(), kMost = std::numeric_limits<A>::max();
  const A size = std::abs(product);
  return ((size >= kLeast) | is_zero) & (size <= kMost);
}

/// dx = h * factor + ((x - pivot) * slope + shift), all but h and x the same along a plane, and all
/// but the factor along a cell: r * (h * scale - mean_w - z * mean_wz), rounded as seldom.
template <class A>
struct PlaneFormula {
  A pivot, slope, shift, factor = 0;
  double inverse;  // r
  bool is_sound;

  explicit PlaneFormula(const CellState<A>& state)
      : pivot(state.normal.pivot), inverse(double(state.normal.factor)) {
    const double product = inverse * inverse * double(state.mean_wz);
    slope = static_cast<A>(-product);
    shift = static_cast<A>(double(state.normal.delta) * product - inverse * double(state.mean_w));
    is_sound = is_kept(slope, state.mean_wz == 0) && is_kept(shift, state.mean_w == 0);
  }

  /// Takes a plane's scale. Returns whether nothing was lost where exponents end.
  bool take(double scale) {
    factor = static_cast<A>(inverse * scale);
    return is_sound && is_kept(factor, scale == 0);
  }
};

/// Writes what result(i) is of each vector of n elements, at least a vector of them. Some elements
/// are written twice, with the same bits; results that are not streamed may take the place of what
/// they are computed from.
template <class T, class Result>
[[gnu::always_inline]] inline void put_plane(T* dx, int64_t n, bool is_streamed, LinesAhead ahead,
                                             const Result& result) {
  constexpr int64_t kStep = kLanes<Acc<T>>, kLeastStreamed = 8192 / sizeof(T);
  is_streamed &= n >= kLeastStreamed;
  const bool converts = converts_pairs();
  const Vector<Acc<T>> last = result(n - kStep);
  const int64_t head = is_streamed ? to_line(dx) : 0;
  int64_t i = 0;
  for (; i < head; i += kStep) store_narrow(dx + i, result(i), Whole{});
  i = head;
  if (is_streamed)
    for (; i + 2 * kStep <= n; i += 2 * kStep)
      put_pair(dx + i, result(i), result(i + kStep), true, false, converts);
  else
    for (; i + 2 * kStep <= n; i += 2 * kStep) {
      ahead.fetch<true>(dx + i);
      ahead.fetch<true>(dx + i + kStep);
      put_pair(dx + i, result(i), result(i + kStep), false, false, converts);
    }
  if (i + kStep <= n) {
    store_narrow(dx + i, result(i), Whole{});
    i += kStep;
  }
  if (i < n) store_narrow(dx + n - kStep, last, Whole{});
}

/// kHasProduct: dx takes z * mean_wz off.
template <bool kHasProduct, class T, class Pass>
[[gnu::always_inline]] inline void write_plane(const PlaneSlice<T>& s, bool is_streamed,
                                               const PlaneFormula<Acc<T>>& formula,
                                               const Pass& passing) {
  using V = Vector<Acc<T>>;
  const Pass pass = passing;  // in registers
  const T *const x = s.x, *const grad = s.grad;
  const V pivot = V{} + formula.pivot, factor = V{} + formula.factor, slope = V{} + formula.slope,
          shift = V{} + formula.shift;
  put_plane(s.dx, s.n, is_streamed, s.dx_ahead, [&](int64_t i) __attribute__((always_inline)) {
    const V g = load_wide(grad + i, Whole{});
    if constexpr (std::is_same_v<Pass, Through> && !kHasProduct) {
      return fused(g, factor, shift);
    } else {
      const V d = load_wide(x + i, Whole{}) - pivot;
      return fused(pass(g, d), factor, kHasProduct ? fused(d, slope, shift) : shift);
    }
  });
}

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
