// Slopes of activations that are made of an exponential, of vectors of float. NaN stays.
#pragma once

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
