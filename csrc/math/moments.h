// Mean and variance of a group, in parts that can be merged without losing what rounding would
// hide.
#pragma once

#include <cmath>
#include <limits>

#include "core/hd.h"
#include "math/fused.h"

namespace cudml {

HD bool is_finite(double v) { return v - v == 0; }

/// Statistics of n values in T. The mean is pivot + delta: one T that the values are near, and what
/// it misses, so that x - mean keeps its digits however large the mean is. m2 is the sum of squares
/// about the mean. About zero instead (no mean wanted), pivot and delta are 0.
template <class T>
struct Moments {
  double n = 0;
  T pivot = 0;
  double delta = 0, m2 = 0;
};

/// The mean of n values that add up to `sum`, as a pivot.
template <class T>
HD T pivot_of(double sum, double n) {
  return static_cast<T>(sum / n);
}

/// What n values with this mean, as it was rounded, are measured from. Where the square of a
/// rounding error may overflow that is one() of them if such an error may be all between both: so a
/// constant group stays one.
template <class A, class One>
HD A pivot_near(A mean, double n, const One& one) {
  constexpr A kLarge = sizeof(A) == 4 ? A(0x1p64) : A(0x1p512);
  const A size = mean < 0 ? -mean : mean;
  if (!(size > kLarge)) return mean;
  const A value = one(), off = mean < value ? value - mean : mean - value;
  return off <= A(n) * std::numeric_limits<A>::epsilon() * size ? value : mean;
}

/// From the sums of (x - pivot) and (x - pivot)^2. With a pivot that is not finite the mean is that
/// pivot: infinities add up as in the plain sum.
template <class T>
HD Moments<T> moments_about(double n, T pivot, double sum, double square_sum) {
  const double delta = is_finite(double(pivot)) ? sum / n : 0;
  const double m2 = fused(-n * delta, delta, square_sum);
  return {n, pivot, delta, m2 < 0 ? 0 : m2};
}

/// Moments of two disjoint sets together (Chan, Golub, LeVeque). Constant sets merge without error.
/// Infinite means, which may stand in delta alone, add up as in the plain sum.
template <class T>
HD Moments<T> merge(const Moments<T>& a, const Moments<T>& b) {
  const double n = a.n + b.n, share = b.n / n;
  const double shift = (double(b.pivot) - double(a.pivot)) + b.delta - a.delta;
  const double means[] = {double(a.pivot) + a.delta, double(b.pivot) + b.delta};
  const bool finite = is_finite(means[0]) && is_finite(means[1]);
  Moments<T> both;
  both.n = n;
  both.pivot = finite ? a.pivot : static_cast<T>(means[0] + means[1]);
  both.delta = finite ? fused(shift, share, a.delta) : 0;
  both.m2 = fused(shift * shift, a.n * share, a.m2 + b.m2);
  return both;
}

/// The same of neighbours, as terms of a long_sum: of doubles a chain of all chunks of a long group
/// would lose what its sums keep.
template <class T>
HD Moments<T> operator+(const Moments<T>& a, const Moments<T>& b) {
  return merge(a, b);
}

/// What normalizing needs: y = ((x - pivot) - delta) * factor.
template <class T>
struct Normalizer {
  T pivot = 0, delta = 0, factor = 1;

  HD T operator()(T x) const { return ((x - pivot) - delta) * factor; }
};

/// The pivot moves to the mean rounded to T; delta is the exact rest, rounded.
template <class T>
HD Normalizer<T> normalizer_of(const Moments<T>& m, bool use_variance, double epsilon) {
  const double pivot = m.pivot, mean = pivot + m.delta;
  Normalizer<T> result;
  result.pivot = static_cast<T>(mean);
  // Two-sum: for doubles mean is rounded, and its error must not get lost.
  const double part = mean - pivot;
  const double lost = (pivot - (mean - part)) + (m.delta - part);
  const double rest = (mean - double(result.pivot)) + lost;
  result.delta = is_finite(rest) ? static_cast<T>(rest) : T(0);
  if (use_variance) result.factor = static_cast<T>(1 / std::sqrt(m.m2 / m.n + epsilon));
  return result;
}

}  // namespace cudml
