// Roots beyond the square root: straight-line arithmetic without tables or branches, which
// compilers vectorise and which is the same on a GPU.
#pragma once

#include <bit>
#include <cstdint>
#include <type_traits>

#include "core/hd.h"
#include "math/fused.h"

namespace cudml {

/// v = 2^exponent * m with m from sqrt(1/2) to sqrt(2), for a positive normal v.
struct BinaryScale {
  double exponent, m;
};

HD BinaryScale binary_scale(double v) {
  constexpr uint64_t kRootOfHalf = 0x3fe6a09e667f3bcd, kOne = uint64_t{1023} << 52;
  const auto bits = std::bit_cast<uint64_t>(v);
  const uint64_t biased = (bits + (kOne - kRootOfHalf)) >> 52;
  // What stands in the low bits of 2^52 is its last digits.
  const double exponent = std::bit_cast<double>(biased | (uint64_t{1075} << 52)) - (0x1p52 + 1023);
  return {exponent, std::bit_cast<double>(bits - (biased << 52) + kOne)};
}

/// The logarithm of m to the base 2, m from sqrt(1/2) to sqrt(2): to 2^-38 of it, or of double to
/// 2^-53, which roots divide by their order.
template <class V>
HD double log2_of(double m) {
  // 2 artanh(s), by its series: s is at most 0.172.
  const double s = (m - 1) / (m + 1), s2 = s * s;
  double sum = 1.0 / 13;
  if constexpr (std::is_same_v<V, double>) {
    sum = fused(1.0 / 21, s2, 1.0 / 19);
    sum = fused(sum, s2, 1.0 / 17);
    sum = fused(sum, s2, 1.0 / 15);
    sum = fused(sum, s2, 1.0 / 13);
  }
  sum = fused(sum, s2, 1.0 / 11);
  sum = fused(sum, s2, 1.0 / 9);
  sum = fused(sum, s2, 1.0 / 7);
  sum = fused(sum, s2, 1.0 / 5);
  sum = fused(sum, s2, 1.0 / 3);
  return 2.8853900817779268 * fused(s, s2 * sum, s);  // 2 / ln 2
}

/// e^r for |r| <= 0.47, to 2^-37 of it, or of double to 2^-56.
template <class V>
HD double exp_of_reduced(double r) {
  double sum = 1.0 / 3628800;  // of Taylor's series
  if constexpr (std::is_same_v<V, double>) {
    sum = fused(1.0 / 87178291200, r, 1.0 / 6227020800);
    sum = fused(sum, r, 1.0 / 479001600);
    sum = fused(sum, r, 1.0 / 39916800);
    sum = fused(sum, r, 1.0 / 3628800);
  }
  sum = fused(sum, r, 1.0 / 362880);
  sum = fused(sum, r, 1.0 / 40320);
  sum = fused(sum, r, 1.0 / 5040);
  sum = fused(sum, r, 1.0 / 720);
  sum = fused(sum, r, 1.0 / 120);
  sum = fused(sum, r, 1.0 / 24);
  sum = fused(sum, r, 1.0 / 6);
  sum = fused(sum, r, 0.5);
  return 1 + fused(r * r, sum, r);
}

/// The p-th root for p >= 3 of a positive normal value, to two units in the last place of V; 0, NaN
/// and what is negative stay.
template <class V>
HD V nth_root(double value, uint32_t p) {
  constexpr double kShift = 0x1.8p52;  // leaves the nearest whole number in the low bits
  const double order = p, inverse = 1 / order;
  const BinaryScale scale = binary_scale(value);
  // The exponent in whole multiples of p, of which nothing is lost, and a rest of half of it.
  const double shifted = fused(scale.exponent, inverse, kShift), whole = shifted - kShift;
  const double rest = fused(-order, whole, scale.exponent) + log2_of<V>(scale.m);
  const double root = exp_of_reduced<V>(rest * inverse * 0.69314718055994531);
  const uint64_t n = std::bit_cast<uint64_t>(shifted) << 52;
  const auto scaled = std::bit_cast<double>(std::bit_cast<uint64_t>(root) + n);
  return V(value > 0 ? scaled : value);
}

}  // namespace cudml
