// Moments of many columns whose sums advance at once.
#pragma once

#include "cpu/mvn/moments.h"
#include "cpu/simd/native.h"
#include "math/moments.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

constexpr int64_t kWidth = 2048 / sizeof(double);  // columns of a block
constexpr int64_t kChunkRows = 32;   // rows of a block that are summed about one pivot
constexpr int64_t kPartRows = 4096;  // rows of a block that one task takes

/// Moments of a block's columns, each over the same rows.
struct ColumnMoments {
  double n = 0;
  alignas(64) double pivot[kWidth], delta[kWidth], m2[kWidth];

  Moments<double> at(int64_t c) const { return {n, pivot[c], delta[c], m2[c]}; }

  void set(int64_t c, const Moments<double>& m) {
    pivot[c] = m.pivot;
    delta[c] = m.delta;
    m2[c] = m.m2;
  }

  /// Every `fold` neighbours become one group, whose moments each of them gets.
  void join(int64_t fold, int64_t width) {
    for (int64_t first = 0; first < width; first += fold) {
      Moments<double> group = at(first);
      for (int64_t c = first + 1; c < first + fold; ++c) group = merge(group, at(c));
      for (int64_t c = first; c < first + fold; ++c) set(c, group);
    }
    n *= double(fold);
  }

  void add(const ColumnMoments& other, int64_t width) {
    const double mine = n, others = other.n;
    if (mine == 0) {
      for (int64_t c = 0; c < width; ++c) set(c, other.at(c));
    } else {
#pragma GCC ivdep
      for (int64_t c = 0; c < width; ++c)
        set(c, merge(Moments<double>{mine, pivot[c], delta[c], m2[c]},
                     Moments<double>{others, other.pivot[c], other.delta[c], other.m2[c]}));
    }
    n = mine + others;
  }
};

/// Sums over rows [0, n) of kCount vectors of columns that begin at column c.
template <int kCount>
void sum_columns(const double* const* rows, int64_t n, int64_t c, double* sum) {
  Doubles s[kCount] = {};
  for (int64_t r = 0; r < n; ++r)
    for (int j = 0; j < kCount; ++j) s[j] += load_vector<Doubles>(rows[r] + c + j * kDoubles);
  for (int j = 0; j < kCount; ++j) store_vector(sum + c + j * kDoubles, s[j]);
}

/// The same of the differences from `pivot` and of their squares.
template <int kCount>
void sum_columns_about(const double* const* rows, int64_t n, int64_t c, const double* pivot,
                       double* sum, double* square) {
  Doubles p[kCount], s[kCount] = {}, q[kCount] = {};
  for (int j = 0; j < kCount; ++j) p[j] = load_vector<Doubles>(pivot + c + j * kDoubles);
  for (int64_t r = 0; r < n; ++r)
    for (int j = 0; j < kCount; ++j) {
      const Doubles d = load_vector<Doubles>(rows[r] + c + j * kDoubles) - p[j];
      s[j] += d;
      q[j] = fused(d, d, q[j]);
    }
  for (int j = 0; j < kCount; ++j) store_vector(sum + c + j * kDoubles, s[j]);
  for (int j = 0; j < kCount; ++j) store_vector(square + c + j * kDoubles, q[j]);
}

/// Calls fn(column, std::integral_constant<int, vectors>) for steps that cover [0, width).
template <class Fn>
void for_column_vectors(int64_t width, const Fn& fn) {
  int64_t c = 0;
  for (; c + 4 * kDoubles <= width; c += 4 * kDoubles) fn(c, std::integral_constant<int, 4>{});
  for (; c < width; c += kDoubles) fn(c, std::integral_constant<int, 1>{});
}

/// Of `count` rows, at most kChunkRows, which are readable up to the next whole vector.
ColumnMoments moments_of_rows(const double* const* rows, int64_t count, int64_t width,
                              bool use_mean) {
  ColumnMoments moments;
  alignas(64) double pivot[kWidth], sum[kWidth], square[kWidth];
  const int64_t padded = (width + kDoubles - 1) / kDoubles * kDoubles;
  const auto n = double(count);
  moments.n = n;
  if (use_mean) {
    for_column_vectors(
        width, [&](int64_t c, auto vectors) { sum_columns<vectors()>(rows, count, c, sum); });
    for (int64_t c = 0; c < padded; ++c) pivot[c] = pivot_beside(rows[0] + c, sum[c], count);
  } else {
    for (int64_t c = 0; c < padded; ++c) pivot[c] = 0;
  }
  for_column_vectors(width, [&](int64_t c, auto vectors) {
    sum_columns_about<vectors()>(rows, count, c, pivot, sum, square);
  });
  if (use_mean) {
    for (int64_t c = 0; c < width; ++c)
      moments.set(c, moments_about(n, pivot[c], sum[c], square[c]));
  } else {
    for (int64_t c = 0; c < width; ++c) moments.set(c, {n, 0, 0, square[c]});
  }
  return moments;
}

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
