// What a window computes: maximum, sum and Lp sum of its real taps, and what is made of them.
#pragma once

#include <cmath>
#include <limits>

#include "core/hd.h"
#include "core/scalar.h"
#include "math/elementary.h"
#include "math/nth_root.h"

namespace cudml {

template <class V>
HD bool is_nan(V v) {
  if constexpr (std::is_floating_point_v<V>)
    return v != v;
  else
    return false;
}

/// The maximum of nothing (D-MAX-4).
template <class T>
HD Acc<T> max_of_none() {
  using V = Acc<T>;
  if constexpr (std::is_floating_point_v<V>)
    return -std::numeric_limits<V>::infinity();
  else
    return std::numeric_limits<V>::lowest();
}

/// The larger value; NaN where one of them is (D-MAX-3). Of float a device has one instruction.
template <class V>
HD V max_of(V best, V v) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  if constexpr (std::is_same_v<V, float>) {
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(best) : "f"(best), "f"(v));
    return best;
  }
#endif
  const V larger = v > best ? v : best;
  return is_nan(v) ? v : larger;
}

/// Whether tap v takes the place of the best tap before it: the first of equals and the first NaN
/// keep theirs (D-MAX-2, D-MAX-3). Without branches, so that rows of taps vectorise.
template <class V>
HD bool wins(V best, V v) {
  return !(v <= best) & (is_nan(best) == false);
}

/// Divides once (D-AVG-5); nothing counted gives 0 (D-AVG-3). Zeros keep their sign, and what is
/// not finite stays, where a device's quotient has no branches.
template <class V>
HD V average_of(V sum, V divisor) {
  if (divisor == V{0}) return V{0};
#ifdef __CUDA_ARCH__
  if constexpr (std::is_same_v<V, float>) {
    const float quotient = near_quotient(sum, divisor);
    return sum != 0 && sum - sum == 0 ? quotient : sum;
  }
#endif
  return sum / divisor;
}

/// value^p for p >= 1 by repeated squaring.
template <class V>
HD V integer_power(V value, uint32_t p) {
  V result = 1;
  for (;; value *= value) {
    if (p & 1) result *= value;
    if (p >>= 1; p == 0) return result;
  }
}

/// What one tap adds to the direct sum of |x|^p.
template <class V>
HD V lp_term(V value, uint32_t p) {
  if (p == 2) return value * value;
  return p == 1 ? std::fabs(value) : integer_power(std::fabs(value), p);
}

/// Whether a direct sum of |x|^p, its terms computed in V, has neither overflowed nor lost digits
/// to underflow (D-LP-6).
template <class V, class Sum>
HD bool lp_sum_is_safe(Sum sum) {
  const Sum least = std::is_same_v<V, double> ? Sum(0x1p-960) : Sum(0x1p-100);
  return (sum >= least) & (sum < std::numeric_limits<Sum>::infinity());
}

/// The p-th root of a sum of |x|^p. Roots beyond the square root are taken in double: a power with
/// the exponent 1/p rounded to float loses digits where the sum is large.
template <class V>
HD V lp_root(V sum, uint32_t p) {
  if (p == 1) return sum;
  if (p == 2) return std::sqrt(sum);
  return nth_root<V>(double(sum), p);
}

/// The scaled form of D-LP-6 for one window: taps are offered twice, to find the largest magnitude
/// and then to add powers of ratios, in double.
struct LpScaled {
  uint32_t p;
  double largest = 0, scale = 1, sum = 0;

  HD void see(double value) { largest = max_of(largest, std::fabs(value)); }
  /// False where no second pass is needed: result() is ready.
  HD bool prepare() {
    if (!(largest > 0 && largest < std::numeric_limits<double>::infinity())) return false;
    // A power of two makes the scaling exact; high powers need ratios that do not exceed 1.
    scale = p <= 2 ? std::ldexp(1.0, std::ilogb(largest)) : largest;
    return true;
  }
  HD void add(double value) { sum += lp_term(value / scale, p); }
  HD double result() const { return sum == 0 ? largest : scale * lp_root(sum, p); }
};

}  // namespace cudml
