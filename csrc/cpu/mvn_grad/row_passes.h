// The passes over packed rows of a gradient that read: statistics, and sums of w and of w * z.
#pragma once

#include "cpu/mvn_grad/joined.h"
#include "cpu/mvn_grad/row_lanes.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

/// The longest stretch of a row whose sums stay in the computing type: chains of at most 512
/// additions.
constexpr int64_t kSumStretch = 4096;

/// T is the type of x, G that of the gradient.
template <class T, class G>
struct GradRow {
  using A = Acc<T>;

  const T* x = nullptr;
  const G* grad = nullptr;
  const T* next[2] = {};  // what is read ahead while sums are found, and dx; or null
  CellState<A> state;
  double sum_w = 0, sum_wz = 0;
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
      : pivot(Vector<A>{} + n.pivot),
        factor(Vector<A>{} + n.factor),
        shift(Vector<A>{} - (n.delta == 0 ? A(0) : n.delta * n.factor)) {}
  Vector<A> operator()(Vector<A> x) const { return fused(x - pivot, factor, shift); }
};

/// What one pass adds up of d = x - pivot, d * d, w and w * d; without a gradient w is 0, and the
/// first two have the same bits.
struct JoinedSums {
  double of[4] = {};
};

/// Lanes beyond a row's end add 0.
template <bool kHasGrad, class T>
[[gnu::noinline]] JoinedSums joined_sums(const T* x, const T* grad, const T* next,
                                         const Acc<T>* scale, int64_t n, Acc<T> pivot) {
  using V = Vector<Acc<T>>;
  const bool across = are_across_lines(x, grad);
  JoinedSums total;
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
    add_lanes_of(sums, total.of);
  }
  return total;
}

/// Statistics of a row of at least a vector, in one pass about a guess, or in two where that is far
/// from the mean. `sums` receives the last pass's.
template <bool kHasGrad, class T>
Moments<float> row_moments(const T* x, const T* grad, const T* next, const float* scale, int64_t n,
                           bool use_mean, JoinedSums& sums) {
  const auto count = double(n);
  float guess = use_mean ? guess_from(n, [&](int64_t i) { return load_wide(x + i, Whole{}); }) : 0;
  sums = joined_sums<kHasGrad>(x, grad, next, scale, n, guess);
  if (!use_mean) return {count, 0, 0, sums.of[1]};
  const double delta = sums.of[0] / count;
  if (!is_near(delta, fused(-delta, delta, sums.of[1] / count))) {
    guess = guess_of(double(guess) + delta, 1);
    sums = joined_sums<kHasGrad>(x, grad, next, scale, n, guess);
  }
  return moments_about(count, guess, sums.of[0], sums.of[1]);
}

/// Finds a row's own statistics, and its sums of w and w * z in the same pass. Returns whether the
/// sums are sound, too.
template <class T>
bool find_joined(GradRow<T, T>& row, const Acc<T>* scale, int64_t n, bool use_mean,
                 bool use_variance, double epsilon) {
  JoinedSums sums;
  const Moments<float> m =
      row_moments<true>(row.x, row.grad, row.next[0], scale, n, use_mean, sums);
  row.state.normal = normalizer_of(m, use_variance, epsilon);
  row.sum_w = sums.of[2];
  if (!use_variance) return true;
  const double factor = double(row.state.normal.factor);
  row.sum_wz = factor * fused(-m.delta, sums.of[2], sums.of[3]);
  return is_joinable(factor) && is_finite(row.sum_wz);
}

/// The sums of w, and of w * z where there is a z. Lanes beyond a row's end add 0.
template <bool kHasZ, class T, class G>
[[gnu::noinline]] void sum_row(GradRow<T, G>& row, const Acc<T>* scale, int64_t n) {
  using A = Acc<T>;
  using V = Vector<A>;
  const NormalLanes<A> normal(row.state.normal);
  const T *const x = row.x, *const next = row.next[0];
  const G* const grad = row.grad;
  row.sum_w = row.sum_wz = 0;
  for (int64_t first = 0; first < n; first += kSumStretch) {
    V sum_w[2] = {}, sum_wz[2] = {};
    for_lanes<A>(first, std::min(n, first + kSumStretch), [&](int64_t i, int k, auto m) {
      if (begins_line<T>(k)) fetch(next, i);
      const V w = load_wide(grad + i, m) * load_wide(scale + i, m);
      sum_w[k] += w;
      if constexpr (kHasZ)
        sum_wz[k] = fused(w, select(m, normal(load_wide(x + i, m)), V{}), sum_wz[k]);
    });
    row.sum_w += lane_total<A>(sum_w[0] + sum_w[1]);
    row.sum_wz += lane_total<A>(sum_wz[0] + sum_wz[1]);
  }
}

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
