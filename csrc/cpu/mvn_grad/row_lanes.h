// Vectors of a row, whole ones and its last.
#pragma once

#include "cpu/mvn/moments.h"
#include "cpu/mvn/sums.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

/// Calls fn(i, k, lanes) for the vectors of [begin, end); k is 0 and 1 in turn.
template <class A, class Fn>
[[gnu::always_inline]] inline void for_lanes(int64_t begin, int64_t end, const Fn& fn) {
  constexpr int64_t kStep = kLanes<A>;
  int64_t i = begin;
  for (; i + 2 * kStep <= end; i += 2 * kStep) {
    fn(i, 0, Whole{});
    fn(i + kStep, 1, Whole{});
  }
  if (i + kStep <= end) {
    fn(i, 0, Whole{});
    i += kStep;
  }
  if (i < end) fn(i, 1, Partial{end - i});
}

/// The same of [0, end), without numbers: for sums of one chain.
template <class A, class Fn>
[[gnu::always_inline]] inline void for_chain(int64_t end, const Fn& fn) {
  const int64_t whole = end / kLanes<A> * kLanes<A>;
  for (int64_t i = 0; i < whole; i += kLanes<A>) fn(i, Whole{});
  if (whole < end) fn(whole, Partial{end - whole});
}

/// The sum of all lanes.
template <class A>
inline double lane_total(const Vector<A>& v) {
  constexpr int kCount = int(kLanes<A>);
  using Wide = Vector<double, kCount* int(sizeof(double))>;
  return add_lanes<kCount>(__builtin_convertvector(v, Wide));
}

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
