// Sums and results whose factors are joined, and when they may be.
#pragma once

#include <cmath>
#include <limits>

#include "cpu/mvn_grad/cell.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

/// Whether z may be summed up as d * factor: no product of d leaves the range for that.
template <class D>
inline auto is_joinable(D factor) {
  return (factor >= 0x1p-20) & (factor <= 0x1p20);
}

/// Whether a product kept its digits; one that is 0 as a factor is has none to lose.
template <class A>
inline bool is_kept(A product, bool is_zero) {
  constexpr A kLeast = std::numeric_limits<A>::min(), kMost = std::numeric_limits<A>::max();
  const A size = std::abs(product);
  return ((size >= kLeast) | is_zero) & (size <= kMost);
}

/// v * by = d * of_d + rest, of an activation's argument v = z * scale + bias and d = x - pivot.
template <class A>
struct PassFactors {
  A of_d, rest;
  bool are_kept;

  PassFactors(const Normalizer<A>& normal, double scale, double bias, double by) {
    const double product = double(normal.factor) * scale * by;
    of_d = static_cast<A>(product);
    rest = static_cast<A>(bias * by - double(normal.delta) * product);
    are_kept = is_kept(of_d, scale == 0) && is_kept(rest, true);
  }
};

/// dx = h * factor + ((x - pivot) * slope + shift), all but h, x and perhaps the scale the same
/// along a cell: r * (h * scale - mean_w - z * mean_wz), rounded as seldom. The factor is r * scale
/// where elements share a scale, else r.
template <class A>
struct JoinedDx {
  A pivot, slope, shift, factor = 0;
  double inverse;  // r
  bool is_sound;

  explicit JoinedDx(const CellState<A>& state)
      : pivot(state.normal.pivot), inverse(double(state.normal.factor)) {
    const double product = inverse * inverse * double(state.mean_wz);
    slope = static_cast<A>(-product);
    shift = static_cast<A>(double(state.normal.delta) * product - inverse * double(state.mean_w));
    is_sound = is_kept(slope, state.mean_wz == 0) && is_kept(shift, state.mean_w == 0);
  }

  /// Takes a scale. Returns whether nothing was lost where exponents end.
  bool take(double scale) {
    factor = static_cast<A>(inverse * scale);
    return is_sound && is_kept(factor, scale == 0);
  }
};

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
