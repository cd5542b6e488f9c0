// e^x of vectors of float, and polynomials.
#pragma once

#include "cpu/simd/convert.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

/// Coefficients from that of the highest power of x down to the constant.
template <class... Rest>
inline Floats polynomial(Floats x, float highest, Rest... rest) {
  Floats p = broadcast(highest);
  ((p = fused(p, x, broadcast(rest))), ...);
  return p;
}

/// v * 2^n, where no number leaves the normal ones: n is a whole number of less than nine bits, and
/// `shifted` is 1.5 * 2^23 + n, whose last bits count.
inline Floats times_power_of(Floats v, Floats shifted) {
  using Bits = Vector<uint32_t>;
  return std::bit_cast<Floats>(std::bit_cast<Bits>(v) + (std::bit_cast<Bits>(shifted) << 23));
}

/// e^x for x <= 0: 2^n * e^r with |r| <= (ln 2) / 2, whose minimax polynomial is off by 4e-9.
inline Floats exponential(Floats x) {
  const Floats limited = at_least(x, -105.0f);
  constexpr float kShift = 12582912.0f;  // 1.5 * 2^23: leaves the nearest whole number
  const Floats shifted = fused(limited, broadcast(1.44269504f), broadcast(kShift)),
               whole = shifted - kShift;
  const Floats r =
      fused(whole, broadcast(2.12194440e-4f), fused(whole, broadcast(-0.693359375f), limited));
  const Floats p = polynomial(r, 1.3813851401e-3f, 8.3690788597e-3f, 4.1668422520e-2f,
                              1.6666518152e-1f, 4.9999994040e-1f, 1.0f, 1.0f);
  return times_power(p, whole);
}

/// e = exp(-|z|) and share = 1 / (1 + e): sigmoid(z) is share where z is positive, else e * share.
struct SigmoidParts {
  Floats e, share;

  explicit SigmoidParts(Floats z)
      : e(exponential(minus_magnitude(z))), share(quotient(broadcast(1), e + 1)) {}
  Floats value(Floats z) const { return by_sign(z, e * share, share); }
  Floats slope() const { return e * share * share; }
};

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
