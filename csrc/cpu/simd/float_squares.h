// Squares of as many vectors of floats as each has lanes.
#pragma once

#include <algorithm>

#include "cpu/simd/convert.h"
#include "cpu/simd/lanes.h"
#include "cpu/simd/square.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

/// The lanes of elements [i, i + kFloats) of n: fn(i, lanes) for each such stretch, the last of
/// which takes some elements again, if there is room for that.
template <class Fn>
[[gnu::always_inline]] inline void for_squares(int64_t n, const Fn& fn) {
  if (n < kFloats) return with_lanes(n, [&](auto m) { fn(int64_t(0), m); });
  for (int64_t i = 0; i < n; i += kFloats) fn(std::min(i, n - kFloats), Whole{});
}

/// Turns rows of floats into columns.
[[gnu::always_inline]] inline void turn_floats(Floats (&rows)[kFloats]) {
  SquareRow<uint32_t> bits[kFloats];
#pragma GCC unroll 16
  for (int64_t r = 0; r < kFloats; ++r) bits[r] = same_bits<SquareRow<uint32_t>>(rows[r]);
  turn<uint32_t>(bits);
#pragma GCC unroll 16
  for (int64_t r = 0; r < kFloats; ++r) rows[r] = same_bits<Floats>(bits[r]);
}

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
