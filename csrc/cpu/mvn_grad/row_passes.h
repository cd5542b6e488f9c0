// The passes over packed rows of a gradient that read: statistics, and sums of w and of w * z.
#pragma once

#include "cpu/memory/tuning.h"
#include "cpu/mvn_grad/joined.h"
#include "cpu/mvn_grad/row_lanes.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

using tuning::mvn_grad::kMostBatched;

/// The longest stretch of a row whose sums stay in the computing type: chains of at most 512
/// additions.
constexpr int64_t kSumStretch = 4096;

/// T is the type of x, G that of the gradient.
template <class T, class G>
struct GradRow {
  const T* x;
  const G* grad;
  const T* next[2];  // what is read ahead while sums are found, and dx; or null
};

/// Whether vector k of for_lanes() may be the first of a line.
template <class T>
constexpr bool begins_line(int k) {
  return k == 0 || kLanes<Acc<T>> * int64_t(sizeof(T)) >= 64;
}

/// Into the second-level cache: the first one has no room for more than a row.
[[gnu::always_inline]] inline void fetch(const auto* row, int64_t i) {
  if (row) __builtin_prefetch(row + i, 0, 2);
}

/// z = (x - pivot) * factor + shift, where the shift is as small as what rounding the mean to the
/// pivot left.
template <class A>
struct NormalLanes {
  Vector<A> pivot, factor, shift;

  explicit NormalLanes(const Normalizer<A>& n)
      : pivot(all_lanes<A>(n.pivot)),
        factor(all_lanes<A>(n.factor)),
        shift(Vector<A>{} - (n.delta == 0 ? A(0) : n.delta * n.factor)) {}
  Vector<A> operator()(Vector<A> x) const { return fused(x - pivot, factor, shift); }
};

/// What passes over the rows of a batch add up of d = x - pivot, d * d, w and w * d or w * z: in
/// doubles, but for the last stretch of each row, whose lanes are added up with those of other
/// rows.
struct BatchSums {
  alignas(64) Floats last[4][kMostBatched] = {};
  alignas(64) double of[4][kMostBatched];

  /// Takes the lanes of a stretch of row r, of sums from number `first` on.
  template <int kSums>
  [[gnu::always_inline]] void add(int64_t r, int first, const Floats (&sums)[kSums], bool is_last) {
    if (is_last) {
      for (int k = 0; k < kSums; ++k) last[first + k][r] = sums[k];
      return;
    }
    double total[kSums] = {};
    add_lanes_of(sums, total);
    for (int k = 0; k < kSums; ++k) of[first + k][r] += total[k];
  }

  /// Sums [first, first + kSums) of row r are 0 so far.
  template <int kSums>
  void begin_row(int64_t r, int first) {
    for (int k = first; k < first + kSums; ++k) of[k][r] = 0;
  }
  /// Makes its last stretch part of them.
  template <int kSums>
  void finish_row(int64_t r, int first) {
    Floats sums[kSums];
    for (int k = 0; k < kSums; ++k) sums[k] = last[first + k][r];
    add(r, first, sums, false);
  }
  /// The same of rows [0, count): lanes are added by halves either way.
  template <int kSums>
  void finish(int64_t count, int first) {
    if (count < kFloats / 2) {
      for (int64_t r = 0; r < count; ++r) finish_row<kSums>(r, first);
      return;
    }
    for (int k = first; k < first + kSums; ++k)
      for (int64_t r = 0; r < count; r += kFloats) {
        HalfFloats half[2];
        const Floats totals = sums_of_lanes(last[k] + r);
        std::memcpy(half, &totals, sizeof half);
        for (int64_t l = 0; l < 2; ++l) {
          double* const to = of[k] + r + l * kDoubles;
          store_vector(to, load_vector<Doubles>(to) + as_doubles(half[l]));
        }
      }
  }
};

/// What is added up for row `r` of `sums`; without a gradient w is 0, and the first two have the
/// same bits. Lanes beyond a row's end add 0.
template <bool kHasGrad, class T>
[[gnu::noinline]] void add_joined(const T* x, const T* grad, const T* next, const Acc<T>* scale,
                                  int64_t n, Acc<T> pivot, int64_t r, BatchSums& to) {
  using V = Vector<Acc<T>>;
  const bool across = are_across_lines(x, grad);
  for (int64_t first = 0; first < n; first += kSumStretch) {
    V sums[4] = {}, others[4] = {};
    const auto add = [&](V(&sum)[4], int64_t i, auto m) __attribute__((always_inline)) {
      const V d = select(m, load_across(x + i, m, across) - pivot, V{});
      sum[0] += d;
      sum[1] = fused(d, d, sum[1]);
      if constexpr (kHasGrad) {
        const V w = load_across(grad + i, m, across) * load_wide(scale + i, m);
        sum[2] += w;
        sum[3] = fused(w, d, sum[3]);
      }
    };
    for_lanes<Acc<T>>(first, std::min(n, first + kSumStretch), [&](int64_t i, int k, auto m) {
      if (begins_line<T>(k)) fetch(next, i);
      add(k == 0 ? sums : others, i, m);
    });
#pragma GCC unroll 4
    for (int k = 0; k < 4; ++k) sums[k] += others[k];
    to.add(r, 0, sums, first + kSumStretch >= n);
  }
}

/// Adds up w, and w * z where there is a z, for row `r` of `sums`. Lanes beyond a row's end add 0.
template <bool kHasZ, class T, class G>
[[gnu::noinline]] void add_products(const GradRow<T, G>& row, const Normalizer<Acc<T>>& normalizer,
                                    const Acc<T>* scale, int64_t n, int64_t r, BatchSums& to) {
  using A = Acc<T>;
  using V = Vector<A>;
  const NormalLanes<A> normal(normalizer);
  const T *const x = row.x, *const next = row.next[0];
  const G* const grad = row.grad;
  for (int64_t first = 0; first < n; first += kSumStretch) {
    V sums[2] = {}, others[2] = {};
    const auto add = [&](V(&sum)[2], int64_t i, auto m) __attribute__((always_inline)) {
      const V w = load_wide(grad + i, m) * load_wide(scale + i, m);
      sum[0] += w;
      if constexpr (kHasZ) sum[1] = fused(w, select(m, normal(load_wide(x + i, m)), V{}), sum[1]);
    };
    for_lanes<A>(first, std::min(n, first + kSumStretch), [&](int64_t i, int k, auto m) {
      if (begins_line<T>(k)) fetch(next, i);
      add(k == 0 ? sums : others, i, m);
    });
    for (int k = 0; k < 2; ++k) sums[k] += others[k];
    to.add(r, 2, sums, first + kSumStretch >= n);
  }
}

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
