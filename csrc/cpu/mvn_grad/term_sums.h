// Sums over packed rows of any length, in chains of additions that are short.
#pragma once

#include <algorithm>

#include "cpu/simd/native.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

/// Elements whose sum stays in the computing type: chains of at most 256 additions of floats.
constexpr int64_t kMostTerms = 4096;

/// The sum of term(i) over a row of at most kMostTerms elements; term(i, V) is a vector of them
/// from i on. Four vectors of accumulators, so that additions need not wait for each other.
template <class A, class Terms>
[[gnu::always_inline]] inline double sum_of_terms(int64_t n, const Terms& terms) {
  using V = Vector<A>;
  constexpr int64_t kStep = kLanes<A>;
  V sums[4] = {};
  int64_t i = 0;
  for (; i + 4 * kStep <= n; i += 4 * kStep)
#pragma GCC unroll 4
    for (int k = 0; k < 4; ++k) sums[k] = terms.template added<V>(sums[k], i + k * kStep);
  for (; i + kStep <= n; i += kStep) sums[0] = terms.template added<V>(sums[0], i);
  const V all = (sums[0] + sums[1]) + (sums[2] + sums[3]);
  double sum = 0;
  for (int l = 0; l < kStep; ++l) sum += double(all[l]);
  A rest = 0;
  for (; i < n; ++i) rest = terms.added(rest, i);
  return sum + double(rest);
}

template <class A>
struct RowTerms {
  const A* row;

  template <class V>
  V added(V sum, int64_t i) const {
    return sum + load_vector<V>(row + i);
  }
  A added(A sum, int64_t i) const { return sum + row[i]; }
};

template <class A>
struct ProductTerms {
  const A *a, *b;

  template <class V>
  V added(V sum, int64_t i) const {
    return fused(load_vector<V>(a + i), load_vector<V>(b + i), sum);
  }
  A added(A sum, int64_t i) const { return fused(a[i], b[i], sum); }
};

/// The sum of a row of any length: that of its stretches.
template <class A>
double row_sum(const A* row, int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n; i += kMostTerms)
    sum += sum_of_terms<A>(std::min(kMostTerms, n - i), RowTerms<A>{row + i});
  return sum;
}

/// The same of a[i] * b[i].
template <class A>
double product_sum(const A* a, const A* b, int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n; i += kMostTerms)
    sum += sum_of_terms<A>(std::min(kMostTerms, n - i), ProductTerms<A>{a + i, b + i});
  return sum;
}

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
