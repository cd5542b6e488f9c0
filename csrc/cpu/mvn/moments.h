// Statistics of a packed chunk that the cache holds: a sum, then sums about the pivot it gives.
#pragma once

#include "cpu/simd/native.h"
#include "math/moments.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

/// Elements of a chunk: both passes find it in the first-level cache. Chains of additions are at
/// most 256 long (four vectors of 16 bytes). The pivot of a constant chunk is then off by less than
/// 86 units in the last place, and the sums about it, below 2^24 such units squared, are exact.
template <class A>
constexpr int64_t kChunk = 16384 / sizeof(A);

/// The sum of a vector's kCount lanes, by halves.
template <int kCount, class V>
inline double add_lanes(const V& v) {
  if constexpr (kCount == 1) {
    return v[0];
  } else {
    Vector<double, kCount / 2 * int(sizeof(double))> half[2];
    std::memcpy(half, &v, sizeof v);
    half[0] += half[1];
    return add_lanes<kCount / 2>(half[0]);
  }
}

/// Four vectors of accumulators, so that additions need not wait for each other.
template <class A>
struct Sums {
  Vector<A> v[4] = {};

  double total() const {
    constexpr int kCount = int(kLanes<A>);
    using Wide = Vector<double, kCount* int(sizeof(double))>;
    const Wide sum = __builtin_convertvector((v[0] + v[1]) + (v[2] + v[3]), Wide);
    return add_lanes<kCount>(sum);
  }
};

/// Calls fn(j, vector) for every vector of x, j from 0 to 3 in turn; `filler` completes the last.
template <class A, class Fn>
[[gnu::always_inline]] inline void for_vectors(const A* x, int64_t n, A filler, const Fn& fn) {
  using V = Vector<A>;
  constexpr int64_t kStep = kLanes<A>;
  int64_t i = 0;
  for (; i + 4 * kStep <= n; i += 4 * kStep) {
    fn(0, load_vector<V>(x + i));
    fn(1, load_vector<V>(x + i + kStep));
    fn(2, load_vector<V>(x + i + 2 * kStep));
    fn(3, load_vector<V>(x + i + 3 * kStep));
  }
  for (; i + kStep <= n; i += kStep) fn(0, load_vector<V>(x + i));
  if (i == n) return;
  V rest;
  for (int64_t l = 0; l < kStep; ++l) rest[l] = i + l < n ? x[i + l] : filler;
  fn(1, rest);
}

template <class A>
inline double sum_of(const A* x, int64_t n) {
  Sums<A> sums;
  for_vectors(x, n, A(0), [&](int j, auto v) { sums.v[j] += v; });
  return sums.total();
}

/// From the second pass. Without a mean the pivot is 0 and stays the mean.
template <class A>
inline Moments<A> moments_around(A pivot, const A* x, int64_t n, bool use_mean) {
  Sums<A> sums, squares;
  for_vectors(x, n, pivot, [&](int j, auto v) {
    const auto d = v - pivot;
    sums.v[j] += d;
    squares.v[j] = fused(d, d, squares.v[j]);
  });
  if (!use_mean) return {double(n), 0, 0, squares.total()};
  return moments_about<A>(double(n), pivot, sums.total(), squares.total());
}

/// What n values that add up to `sum` are measured from.
template <class A>
inline A pivot_beside(const A* first, double sum, int64_t n) {
  return pivot_near(pivot_of<A>(sum, double(n)), double(n), [&] { return *first; });
}

template <class A>
inline Moments<A> moments_of(const A* x, int64_t n, bool use_mean) {
  const A pivot = use_mean ? pivot_beside(x, sum_of(x, n), n) : A(0);
  return moments_around(pivot, x, n, use_mean);
}

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
