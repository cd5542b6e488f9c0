// Slopes of activations by vectors of float. NaN stays.
#pragma once

#include <cmath>

#include "cpu/simd/exponential.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

/// Of x * sigmoid(a * x): t + z * t * (1 - t) with z = a * x and t = sigmoid(z).
struct SwishSlope {
  Floats a;

  [[gnu::always_inline]] Floats operator()(Floats v) const {
    const Floats z = gated_product(a, v);
    const SigmoidParts s(z);
    const Floats rest = s.e * s.share;
    const Floats slope = by_sign(z, rest, s.share) + gated_product(rest * s.share, z);
    return v == v ? slope : v;
  }
};

/// The same of z = a * x in half of the steps, within 5e-7. Above 80 the slope is 1, and
/// below -80 it is 0, whatever its steps come to there: exactly, as -infinity asks for. e^-z is
/// 2^n * e^r with |r| <= (ln 2) / 2 and e^r = (even + r) / (even - r), where even = r / tanh(r / 2)
/// is 2 + r^2 / 6 but for 1e-5: one division gives t = 1 / (1 + e^-z) and 1 - t.
struct QuickSwishSlope {
  /// Where z is 0 or infinite only where x is.
  static bool suits(double a) { return std::abs(a) >= 0x1p-60 && std::abs(a) <= 0x1p60; }

  /// Puts slopes in the place of products. The chain of operations is long: several take turns.
  template <int kCount>
  [[gnu::always_inline]] void operator()(Floats (&product)[kCount]) const {
    constexpr float kShift = 12582912.0f;  // 1.5 * 2^23: leaves the nearest whole number
    Floats z[kCount], shifted[kCount], r[kCount], even[kCount], e[kCount], inverse[kCount];
#pragma GCC unroll 4
    for (int i = 0; i < kCount; ++i) z[i] = at_most(product[i], 80.0f);
#pragma GCC unroll 4
    for (int i = 0; i < kCount; ++i)
      shifted[i] = fused(z[i], broadcast(-1.44269504f), broadcast(kShift));
#pragma GCC unroll 4
    for (int i = 0; i < kCount; ++i)
      r[i] = fused(shifted[i] - kShift, broadcast(-0.693147181f), -z[i]);
#pragma GCC unroll 4
    for (int i = 0; i < kCount; ++i)
      even[i] = fused(r[i] * r[i], broadcast(0.166250416f), broadcast(2.00001251f));
#pragma GCC unroll 4
    for (int i = 0; i < kCount; ++i) {
      e[i] = times_power_of(even[i] + r[i], shifted[i]);
      even[i] = even[i] - r[i];
    }
#pragma GCC unroll 4
    for (int i = 0; i < kCount; ++i) inverse[i] = reciprocal(even[i] + e[i]);
#pragma GCC unroll 4
    for (int i = 0; i < kCount; ++i) {
      const Floats t = even[i] * inverse[i], slope = fused(t, e[i] * z[i] * inverse[i], t);
      product[i] = z[i] < -80.0f ? Floats{} : slope;
    }
  }
};

/// Of the sigmoid of z = by * v, and of the hyperbolic tangent, whose slope is four times that of
/// the sigmoid of 2 * z.
struct BellSlope {
  float by, times, outer;

  [[gnu::always_inline]] Floats operator()(Floats v) const {
    const Floats z = gated_product(broadcast(by), v) * times;
    const Floats slope = SigmoidParts(z).slope() * (times * times) * by * outer;
    return v == v ? slope : v;
  }
};

/// inner * outer * sigmoid(by * v): of softplus.
struct SigmoidSlope {
  float by, inner, outer;

  [[gnu::always_inline]] Floats operator()(Floats v) const {
    const Floats z = gated_product(broadcast(by), v);
    const Floats slope = SigmoidParts(z).value(z) * inner * outer;
    return v == v ? slope : v;
  }
};

/// gamma * alpha * e^v, and gamma where v is positive.
struct EluSlope {
  float alpha, gamma;

  [[gnu::always_inline]] Floats operator()(Floats v) const {
    const Floats low = exponential(minus_magnitude(v)) * alpha;
    return (v > 0 ? broadcast(1) : low) * gamma;
  }
};

// The two that follow take no exponential; where they block, nothing passes, be it infinite.

/// alpha, which blocks outside of the slope of the hard sigmoid.
struct HardSigmoidSlope {
  float alpha, beta;

  [[gnu::always_inline]] Floats operator()(Floats v) const { return v == v ? broadcast(alpha) : v; }
  [[gnu::always_inline]] auto blocks(Floats v) const {
    const Floats line = gated_product(broadcast(alpha), v) + beta;
    return (line <= 0) | (line >= 1);
  }
};

/// Of v times the hard sigmoid.
struct HardSwishSlope {
  float alpha, beta;

  [[gnu::always_inline]] Floats operator()(Floats v) const {
    const Floats line = gated_product(broadcast(alpha), v);
    const Floats slope = line + beta < 1 ? 2 * line + beta : broadcast(1);
    return v == v ? slope : v;
  }
  [[gnu::always_inline]] auto blocks(Floats v) const {
    return gated_product(broadcast(alpha), v) + beta <= 0;
  }
};

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
