// The winner of a plane that one window covers, whose elements stand together: its maximum, and the
// first element that equals it.
#pragma once

#include "cpu/pool/reduce.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

struct Smaller {
  template <class A>
  static A join(A a, A b) {
    return b < a ? b : a;
  }
};

/// The number of the first of n elements that `is` tells of, be it of one or of a vector of them;
/// it tells of one at least. Of few vectors all are asked: where to stop would be guessed wrong.
template <class E, class Is>
int64_t first_that(const E* p, int64_t n, const Is& is) {
  using P = std::conditional_t<sizeof(E) == 8, int64_t,
                               std::conditional_t<sizeof(E) == 4, int32_t, int16_t>>;
  constexpr int64_t kStep = kLanes<E>, kFew = 8 * kStep;
  int64_t i = 0;
  if (sizeof(E) > 1 && n >= kStep && n <= kFew) {
    Vector<P> first = all_lanes(P(n)), ramp;
    for (int64_t k = 0; k < kLanes<P>; ++k) ramp[k] = P(k);
    const auto ask = [&](int64_t at) __attribute__((always_inline)) {
      const auto number = ramp + P(at);
      if constexpr (sizeof(E) > 1)
        first = Smaller::join(first, is(load_vector<Vector<E>>(p + at)) ? number : first);
    };
    for (; i + kStep <= n; i += kStep) ask(i);
    if (i < n) ask(n - kStep);
    return join_lanes<Smaller, P>(first);
  }
  while (i + kStep <= n && !any_bits(is(load_vector<Vector<E>>(p + i)))) i += kStep;
  while (i < n - 1 && !is(p[i])) ++i;
  return i;
}

/// n >= 1. NaN wins over all (D-MAX-3), and of equals, which zeros are, the first (D-MAX-6).
template <class Op>
int64_t winner_of(const Op& op, const typename Op::Element* plane, int64_t n) {
  using E = typename Op::Element;
  E largest;
  store_part(op, &largest, all_lanes(join_span(op, plane, n)), 1);
  if constexpr (std::is_floating_point_v<E>) {
    if (largest != largest) return first_that(plane, n, [](const auto& v) { return v != v; });
    return first_that(plane, n, [=](const auto& v) { return v == largest; });
  } else {
    E mask = E(-1);
    if constexpr (sizeof(E) == 2) {  // floats where there is a magnitude
      const auto magnitude = E(op.magnitude), infinity = E(op.magnitude - op.turn);
      const auto is_nan = [=](const auto& bits) { return (bits & magnitude) > infinity; };
      if (magnitude != 0 && is_nan(largest)) return first_that(plane, n, is_nan);
      if (magnitude != 0 && (largest & magnitude) == 0) mask = magnitude;
    }
    const auto value = E(largest & mask);
    return first_that(plane, n, [=](const auto& v) { return (v & mask) == value; });
  }
}

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
