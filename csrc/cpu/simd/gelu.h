// GELU of vectors of float, and its slope.
#pragma once

#include "cpu/simd/exponential.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

/// The normal distribution at -z for z = |v|, as a product of two: bell = e^(-z^2 / 2), which is 0
/// from 14.5 on, and a ratio whose polynomial is off by 2.6e-8.
struct NormalTail {
  Floats minus_z, bell, ratio;

  explicit NormalTail(Floats v) : minus_z(at_least(minus_magnitude(v), -14.5f)) {
    constexpr float kShift = 12582912.0f;  // 1.5 * 2^23: leaves the nearest whole number
    const Floats square = minus_z * minus_z, by = broadcast(-0.72134752f);  // log2(e) / 2
    const Floats whole = fused(square, by, broadcast(kShift)) - kShift;
    const Floats r = fused(square, by, -whole);
    bell = times_power(polynomial(r, 1.535336162e-4f, 1.339887439e-3f, 9.618437358e-3f,
                                  5.550332471e-2f, 2.402264791e-1f, 6.931472029e-1f, 1.0f),
                       whole);
    const Floats one = broadcast(1);
    const Floats t = quotient(one, fused(minus_z, broadcast(-0.34375f), one));
    ratio = t * polynomial(t, -2.75824165e-2f, 1.42804883e-1f, -2.69682215e-1f, 1.88744939e-1f,
                           -3.79087792e-2f, 1.12107701e-1f, 1.16869534e-1f, 1.37525822e-1f,
                           1.37120543e-1f);
  }
};

/// v * Phi(v) = max(v, 0) - z * Phi(-z)
inline Floats gelu_of(Floats v) {
  const NormalTail tail(v);
  return fused(tail.minus_z, tail.bell * tail.ratio, at_least(v, 0));
}

/// Phi(v) + v * phi(v), which is Phi(-z) - z * phi(z) for negative v, and 1 less that for others.
inline Floats gelu_slope_of(Floats v) {
  const NormalTail tail(v);
  const Floats low = tail.bell * fused(tail.minus_z, broadcast(0.39894228f), tail.ratio);
  return by_sign(v, low, 1 - low);
}

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
