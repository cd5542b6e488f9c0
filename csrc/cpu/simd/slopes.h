// Slopes of activations that are made of an exponential, of vectors of float. NaN stays.
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

/// The same in two thirds of the steps, within 5e-7, for an a with which z is 0 or infinite only
/// where x is. Where |z| is above 87, it is taken for that: the slope is 1 there, or not to be told
/// from 0. 1 - t is e^-z * t.
struct QuickSwishSlope {
  Floats turns;  // of 2^-(x * turns) = e^-z

  static bool suits(double a) { return std::abs(a) >= 0x1p-60 && std::abs(a) <= 0x1p60; }

  explicit QuickSwishSlope(double a) : turns(broadcast(float(a * 1.4426950408889634))) {}

  [[gnu::always_inline]] Floats operator()(Floats v) const {
    constexpr float kLeast = -126, kShift = 12582912.0f;  // 1.5 * 2^23 leaves whole numbers
    const Floats n = at_least(-at_least(v * turns, kLeast), kLeast), whole = (n + kShift) - kShift;
    const Floats power = polynomial(n - whole, 0.00132764707f, 0.00967554132f, 0.0555071328f,
                                    0.240221197f, 0.693146967f, 1.00000007f);
    const Floats one = broadcast(1), e = times_power(power, whole), t = quotient(one, one + e),
                 z = n * -0.693147181f;
    return fused(t, e * t * z, t);
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

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
