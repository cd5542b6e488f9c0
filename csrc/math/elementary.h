// Elementary functions for activations. Those of float are straight-line arithmetic without tables
// or branches, which compilers vectorise; those of double are the mathematical library's.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#include "core/hd.h"
#include "math/fused.h"

namespace cudml {

/// 2^n for n in [-126, 127]; some float for any other.
HD float power_of_two(int32_t n) { return std::bit_cast<float>((uint32_t(n) + 127) << 23); }

/// x = n * ln 2 + r with |r| <= (ln 2) / 2, for |x| below 10^4. For NaN r is NaN and n anything.
struct ReducedExponent {
  int32_t n;
  float r;
};

HD ReducedExponent reduce_exponent(float x) {
  // Adding 1.5 * 2^23 leaves the nearest whole number in the low bits.
  constexpr float kShift = 12582912.0f;
  const float shifted = fused(x, 1.44269504f, kShift), whole = shifted - kShift;
  const auto n = int32_t(std::bit_cast<uint32_t>(shifted) - std::bit_cast<uint32_t>(kShift));
  // ln 2 in two parts, the first so short that its product is exact.
  return {n, fused(whole, 2.12194440e-4f, fused(whole, -0.693359375f, x))};
}

/// e^r - 1 for |r| <= (ln 2) / 2, to one unit in the last place.
HD float expm1_of_reduced(float r) {
  float p = 1.9875691500e-4f;
  p = fused(p, r, 1.3981999507e-3f);
  p = fused(p, r, 8.3334519073e-3f);
  p = fused(p, r, 4.1665795894e-2f);
  p = fused(p, r, 1.6666665459e-1f);
  p = fused(p, r, 5.0000001201e-1f);
  return fused(p, r * r, r);
}

HD float exp_of(float x) {
  const float limited = x < -105.0f ? -105.0f : x > 90.0f ? 90.0f : x;  // NaN stays
  const ReducedExponent e = reduce_exponent(limited);
  // In two steps, since 2^n may be subnormal or too large where the result is not.
  const int32_t half = e.n >> 1;
  return (1 + expm1_of_reduced(e.r)) * power_of_two(half) * power_of_two(e.n - half);
}

HD float expm1_of(float x) {
  const float limited = x < -30.0f ? -30.0f : x > 30.0f ? 30.0f : x;
  const ReducedExponent e = reduce_exponent(limited);
  const float scale = power_of_two(e.n);
  const float small = fused(expm1_of_reduced(e.r), scale, scale - 1);
  return x > 20.0f ? exp_of(x) : small;
}

HD float tanh_of(float x) {
  const float e = expm1_of(-2 * std::abs(x));
  return std::copysign(e / (e + 2), x);
}

/// ln(1 + u) for u in [0, 1].
HD float log1p_of(float u) {
  // 2 artanh(s), by its series: s is at most 1/3.
  const float s = u / (2 + u), s2 = s * s;
  float p = 1.0f / 17;
  p = fused(p, s2, 1.0f / 15);
  p = fused(p, s2, 1.0f / 13);
  p = fused(p, s2, 1.0f / 11);
  p = fused(p, s2, 1.0f / 9);
  p = fused(p, s2, 1.0f / 7);
  p = fused(p, s2, 1.0f / 5);
  p = fused(p, s2, 1.0f / 3);
  return fused(2 * s, s2 * p, 2 * s);
}

/// erfc(-x / sqrt 2), twice the normal distribution function.
HD float erfc_of(float x) {
  const float z = std::abs(x) * 0.70710678f, t = 1 / fused(0.5f, z, 1.0f);
  float p = 0.17087277f;
  p = fused(p, t, -0.82215223f);
  p = fused(p, t, 1.48851587f);
  p = fused(p, t, -1.13520398f);
  p = fused(p, t, 0.27886807f);
  p = fused(p, t, -0.18628806f);
  p = fused(p, t, 0.09678418f);
  p = fused(p, t, 0.37409196f);
  p = fused(p, t, 1.00002368f);
  p = fused(p, t, -1.26551223f);
  const float tail = t * exp_of(fused(-0.5f * x, x, p));
  return x < 0 ? tail : 2 - tail;
}

/// a / b for b from 1 to 2^31 and finite a. On a GPU without the branch of quotients that leave the
/// type: Newton's steps from a reciprocal that is good to a bit, which round as a division does.
HD float near_quotient(float a, float b) {
#ifdef __CUDA_ARCH__
  float r;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(b));
  r = fused(fused(-b, r, 1.0f), r, r);
  const float q = a * r;
  return fused(fused(-b, q, a), r, q);
#else
  return a / b;
#endif
}
HD double near_quotient(double a, double b) { return a / b; }

HD double exp_of(double x) { return std::exp(x); }
HD double expm1_of(double x) { return std::expm1(x); }
HD double tanh_of(double x) { return std::tanh(x); }
HD double log1p_of(double u) { return std::log1p(u); }
HD double erfc_of(double x) { return std::erfc(x * -0.70710678118654752440); }

}  // namespace cudml
