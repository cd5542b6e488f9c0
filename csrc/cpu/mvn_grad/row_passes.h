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

/// Elements of a row, of which each sum is one chain.
constexpr int64_t kMostShort = tuning::mvn_grad::kMostChained * kFloats;

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

  /// Sums [first, first + kSums) of row r, or of all rows, are 0 so far.
  template <int kSums>
  void begin_row(int64_t r, int first) {
    for (int k = first; k < first + kSums; ++k) of[k][r] = 0;
  }
  template <int kSums>
  void begin(int first) {
    for (int k = first; k < first + kSums; ++k) std::fill_n(of[k], kMostBatched, 0.0);
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

/// What is added up for a row: d = x - pivot, d * d, w and w * d; without a gradient w is 0. Lanes
/// beyond its end add 0.
template <bool kHasGrad, class A>
struct JoinedSums {
  Vector<A> of[4] = {};

  template <class Lanes>
  [[gnu::always_inline]] void add(Vector<A> x, Vector<A> grad, Vector<A> scale, Vector<A> pivot,
                                  Lanes m) {
    const Vector<A> d = select(m, x - pivot, Vector<A>{});
    of[0] += d;
    of[1] = fused(d, d, of[1]);
    if constexpr (!kHasGrad) return;
    const Vector<A> w = grad * scale;
    of[2] += w;
    of[3] = fused(w, d, of[3]);
  }
};

/// Adds up a row, number `r` of the batch: a short one in one chain, as among others.
template <bool kHasGrad, class T, class G>
[[gnu::noinline]] void add_single_row(const GradRow<T, G>& row, const Acc<T>* scale, int64_t n,
                                      Acc<T> pivot, int64_t r, BatchSums& to) {
  using A = Acc<T>;
  const T *const x = row.x, *const next = row.next[0];
  const G* const grad = row.grad;
  const bool across = are_across_lines(x, grad);
  for (int64_t first = 0; first < n; first += kSumStretch) {
    JoinedSums<kHasGrad, A> sums, others;
    const auto add = [&](auto& of, int64_t i, auto m) __attribute__((always_inline)) {
      Vector<A> g{}, s{};
      if constexpr (kHasGrad) {
        g = load_across(grad + i, m, across);
        s = load_wide(scale + i, m);
      }
      of.add(load_across(x + i, m, across), g, s, all_lanes<A>(pivot), m);
    };
    if (n <= kMostShort)
      for_chain<A>(n, [&](int64_t i, auto m) { add(sums, i, m); });
    else
      for_lanes<A>(first, std::min(n, first + kSumStretch), [&](int64_t i, int k, auto m) {
        if (begins_line<T>(k)) fetch(next, i);
        add(k == 0 ? sums : others, i, m);
      });
#pragma GCC unroll 4
    for (int k = 0; k < 4; ++k) sums.of[k] += others.of[k];
    to.add(r, 0, sums.of, first + kSumStretch >= n);
  }
}

/// The same of a short row, whose sums are one chain each: for each of them kFloats / 4 lanes.
template <bool kHasGrad, class T, class G>
[[gnu::always_inline]] inline Floats add_short_row(const GradRow<T, G>& row, const Acc<T>* scale,
                                                   int64_t n, Acc<T> pivot) {
  using A = Acc<T>;
  JoinedSums<kHasGrad, A> sums;
  for_chain<A>(n, [&](int64_t i, auto m) {
    Vector<A> g{}, s{};
    if constexpr (kHasGrad) {
      g = load_wide(row.grad + i, m);
      s = load_wide(scale + i, m);
    }
    if (begins_line<T>(int(i / kLanes<A> % 2))) fetch(row.next[0], i);
    sums.add(load_wide(row.x + i, m), g, s, all_lanes<A>(pivot), m);
  });
  return sums_of_blocks<4>(sums.of);
}

/// The same of `count` short rows: their sums are found at once.
template <bool kHasGrad, class T, class G>
[[gnu::noinline]] void add_short_rows(const GradRow<T, G>* rows, int64_t count, const Acc<T>* scale,
                                      int64_t n, const float* pivots, BatchSums& to) {
  constexpr int kRows = int(kFloats) / 4;
  for (int64_t first = 0; first < count; first += kFloats) {
    Floats sums[kFloats] = {}, of[4];
    const int64_t here = std::min(kFloats, count - first);
    for (int64_t r = 0; r < here; ++r)
      sums[r] = add_short_row<kHasGrad>(rows[first + r], scale, n, pivots[first + r]);
    for (int k = 0; k < 4; ++k) of[k] = sums_of_blocks<kRows, 4>(sums + k * kRows);
    turn_sums(of);
    for (int k = 0; k < 4; ++k) store_doubles(to.of[k] + first, of[k]);
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
  const auto add = [&](V(&sum)[2], int64_t i, auto m) __attribute__((always_inline)) {
    const V w = load_wide(grad + i, m) * load_wide(scale + i, m);
    sum[0] += w;
    if constexpr (kHasZ) sum[1] = fused(w, select(m, normal(load_wide(x + i, m)), V{}), sum[1]);
  };
  for (int64_t first = 0; first < n; first += kSumStretch) {
    V sums[2] = {}, others[2] = {};
    if (n <= kMostShort)
      for_chain<A>(n, [&](int64_t i, auto m) {
        fetch(next, i);
        add(sums, i, m);
      });
    else
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
