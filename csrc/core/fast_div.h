// Division by a number that is known before the loop: a multiplication and a shift.
#pragma once

#include <cstdint>

#include "core/hd.h"

namespace cudml {

/// Quotients and remainders of n / divisor for 0 <= n < 2^31 and 1 <= divisor < 2^31.
struct FastDiv {
  uint32_t divisor = 1, magic = 1, shift = 0;

  FastDiv() = default;
  explicit FastDiv(uint32_t d) : divisor(d) {
    while ((uint64_t{1} << shift) < d) ++shift;  // the least power of two that is not below d
    magic = uint32_t((uint64_t{1} << 32) * ((uint64_t{1} << shift) - d) / d + 1);
  }

  HD uint32_t quotient(uint32_t n) const {
    return (uint32_t(uint64_t{n} * magic >> 32) + n) >> shift;
  }
  /// The quotient; n becomes the remainder.
  HD uint32_t divide(uint32_t& n) const {
    const uint32_t q = quotient(n);
    n -= q * divisor;
    return q;
  }
};

}  // namespace cudml
