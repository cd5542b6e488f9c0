// x * sigmoid(a * x) of vectors of float.
#pragma once

#include <array>

#include "cpu/simd/exponential.h"
#include "math/activation.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

/// x / (1 + 2^z) with z = -a * log2(e) * x, for |z| < 64. 2^z is a power of 2^(1/kSteps) from a
/// table times that of a remainder, which costs half of what a polynomial for 2^z would; without a
/// table it is e^-|a * x| by a polynomial everywhere.
class Swish {
 public:
  explicit Swish(const Activation& f)
      : a_(float(f.a)), factor_(broadcast(float(-double(a_) * (1.4426950408889634 * kSteps)))) {}

  /// Puts results in the place of x. Returns whether x was finite and not large.
  template <int kCount>
  [[gnu::always_inline]] bool operator()(Floats (&x)[kCount]) const {
    if constexpr (kTableBits == 0) {
      for (Floats& v : x) v = anywhere(a_, v);
      return false;
    }
    Floats y[kCount];
    Bits at[kCount], outside = {};
#pragma GCC unroll 4
    for (int i = 0; i < kCount; ++i) y[i] = near(x[i], at[i]);
#pragma GCC unroll 4
    for (int i = 0; i < kCount; ++i) outside |= at[i] ^ kFirstBits;
    const bool are_near = is_zero(outside & kOutside);
    if (!are_near) [[unlikely]] {
#pragma GCC unroll 4
      for (int i = 0; i < kCount; ++i) y[i] = mended(a_, x[i], y[i], at[i]);
    }
#pragma GCC unroll 4
    for (int i = 0; i < kCount; ++i) x[i] = y[i];
    return are_near;
  }

 private:
  using Bits = Vector<uint32_t>;  // sums of bits leave the range of a signed type
  static constexpr int kBits = kTableBits, kSteps = 1 << kBits;
  // Numbers from kFirst on are whole and count in their last bits.
  static constexpr float kFirst = 12582912.0f, kShift = kFirst + 64 * kSteps;
  static constexpr uint32_t kFirstBits = std::bit_cast<uint32_t>(kFirst),
                            kOutside = uint32_t(-128 * kSteps);

  /// Bits of 2^(i/kSteps), less what the index itself adds when it is shifted to the exponent.
  static constexpr std::array<uint32_t, kSteps> kPowers = [] {
    std::array<uint32_t, kSteps> powers{};
    double power = 1;
    for (int i = 0; i < kSteps; ++i) {
      const auto bits = std::bit_cast<uint32_t>(float(power));
      powers[size_t(i)] = bits - (uint32_t(64 * kSteps + i) << (23 - kBits));
      power *= kBits == 5 ? 1.0218971486541166 : 1.0905077326652577;
    }
    return powers;
  }();

  /// The form of math/activation.h.
  [[gnu::noinline]] static Floats anywhere(float a, Floats x) {
    const Floats z = a * x, one = broadcast(1), e = exponential(minus_magnitude(z));
    return gated_product(quotient(by_sign(z, e, one), one + e), x);
  }

  /// y in the lanes where |z| < 64, elsewhere the same in that form.
  [[gnu::noinline, gnu::cold]] static Floats mended(float a, Floats x, Floats y, Bits at) {
    return ((at ^ kFirstBits) & kOutside) == 0 ? y : anywhere(a, x);
  }

  /// `at` receives z * kSteps, rounded, above kFirst's bits and 64 * kSteps.
  [[gnu::always_inline]] Floats near(Floats x, Bits& at) const {
    const Floats shifted = fused(x, factor_, broadcast(kShift));
    const Floats r = fused(x, factor_, kShift - shifted);
    at = std::bit_cast<Bits>(shifted);
    const auto power = std::bit_cast<Floats>(looked_up(kPowers.data(), at) + (at << (23 - kBits)));
    Floats p;  // off by 5.3e-8
    if constexpr (kTableBits == 5)
      p = polynomial(r, 0.000234594481f, 0.0216611661f, 1.0f);
    else
      p = polynomial(r, 0.000108396292f, 0.00375412614f, 0.0866433978f, 1.0f);
    return x / fused(power, p, broadcast(1));
  }

  float a_;
  Floats factor_;
};

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
