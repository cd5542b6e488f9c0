// Vectors of a row in the type it is computed in, float or double, whole ones and its last; the
// statistics of a row.
#pragma once

#include "cpu/mvn/moments.h"
#include "cpu/mvn/sums.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

// What cpu/simd/convert.h has for floats. Lanes beyond a partial vector are 0.
inline Doubles load_wide(const double* p, Whole) { return load_vector<Doubles>(p); }
inline Doubles load_wide(const double* p, Partial m) {
  Doubles v = {};
  for (int64_t l = 0; l < kDoubles; ++l)
    if (l < m.n) v[l] = p[l];
  return v;
}
inline void store_narrow(double* p, Doubles v, Whole) { store_vector(p, v); }
inline void store_narrow(double* p, Doubles v, Partial m) {
  for (int64_t l = 0; l < kDoubles; ++l)
    if (l < m.n) p[l] = v[l];
}
inline void stream_narrow(double* p, Doubles v) { stream_vector(p, v); }
inline Doubles select(Whole, Doubles v, Doubles) { return v; }
inline Doubles select(Partial m, Doubles v, Doubles other) {
  return kDoubleIndices < Vector<int64_t>{} + m.n ? v : other;
}

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

inline Moments<double> row_moments(const double* x, int64_t n, bool use_mean) {
  constexpr int64_t kLength = kChunk<double>;
  Moments<double> moments = moments_of(x, std::min(kLength, n), use_mean);
  for (int64_t i = kLength; i < n; i += kLength)
    moments = merge(moments, moments_of(x + i, std::min(kLength, n - i), use_mean));
  return moments;
}

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
