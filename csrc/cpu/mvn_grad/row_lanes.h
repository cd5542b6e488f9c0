// Vectors of a row, whole ones and its last; the statistics of a row.
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

/// The sum of all lanes.
template <class A>
inline double lane_total(const Vector<A>& v) {
  constexpr int kCount = int(kLanes<A>);
  using Wide = Vector<double, kCount* int(sizeof(double))>;
  return add_lanes<kCount>(__builtin_convertvector(v, Wide));
}

/// Statistics of a row of at least a vector, in one pass about a guess, or in two where that is far
/// from the mean.
template <class T>
Moments<Acc<T>> row_moments(const T* x, int64_t n, bool use_mean) {
  float guess = use_mean ? guess_from(n, [&](int64_t i) { return load_wide(x + i, Whole{}); }) : 0;
  for (bool is_last = false;; is_last = true) {
    double sum = 0, square = 0;
    for (int64_t i = 0; i < n; i += kStretch) {
      RowSums sums;
      sums.add(x + i, std::min(kStretch, n - i), broadcast(guess), use_mean);
      sum += sum_of_lanes(sums.lanes());
      square += sum_of_lanes(sums.square_lanes());
    }
    if (!use_mean) return {double(n), 0, 0, square};
    const double delta = sum / double(n);
    if (is_last || is_near(delta, fused(-delta, delta, square / double(n))))
      return moments_about(double(n), guess, sum, square);
    guess = guess_of(double(guess) + delta, 1);
  }
}

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
