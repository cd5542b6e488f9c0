// The passes over packed rows of a gradient: sums of w and of w * z, dx, and the totals of a few
// rows.
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
  JoinedSums total;
  for (int64_t first = 0; first < n; first += kSumStretch) {
    V sums[4] = {}, others[4] = {};
    const auto add = [&](V(&sum)[4], int64_t i, auto m) __attribute__((always_inline)) {
      fetch(next, i);
      const V d = select(m, load_wide(x + i, m) - pivot, V{});
      sum[0] += d;
      sum[1] = fused(d, d, sum[1]);
      if constexpr (kHasGrad) {
        const V w = load_wide(grad + i, m) * load_wide(scale + i, m);
        sum[2] += w;
        sum[3] = fused(w, d, sum[3]);
      }
    };
    for_lanes<Acc<T>>(first, std::min(n, first + kSumStretch),
                      [&](int64_t i, int k, auto m) { add(k == 0 ? sums : others, i, m); });
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
      fetch(next, i);
      const V w = load_wide(grad + i, m) * load_wide(scale + i, m);
      sum_w[k] += w;
      if constexpr (kHasZ)
        sum_wz[k] = fused(w, select(m, normal(load_wide(x + i, m)), V{}), sum_wz[k]);
    });
    row.sum_w += lane_total<A>(sum_w[0] + sum_w[1]);
    row.sum_wz += lane_total<A>(sum_wz[0] + sum_wz[1]);
  }
}

/// What rows are added to, a number for each position, up to a whole vector; null where it is not
/// wanted.
template <class A>
struct RowTotals {
  A *products = nullptr, *sums = nullptr;  // of h * z; of h
};

/// dx of a row, which takes a term of x off where kTakesProduct; kHasTotals: and the row is added
/// to both totals. D is T or the computing type.
template <bool kTakesProduct, bool kHasTotals, class D, class T, class G>
[[gnu::noinline]] void write_joined(D* dx, const GradRow<T, G>& row, const Acc<T>* scale, int64_t n,
                                    bool is_streamed, const JoinedDx<Acc<T>>& formula,
                                    const RowTotals<Acc<T>>& totals) {
  using A = Acc<T>;
  using V = Vector<A>;
  constexpr int64_t kStep = kLanes<A>;
  const V pivot = V{} + formula.pivot, slope = V{} + formula.slope, shift = V{} + formula.shift,
          factor = V{} + formula.factor;
  const T *const x = row.x, *const next = row.next[1];
  const G* const grad = row.grad;
  const NormalLanes<A> normal(row.state.normal);
  A *const products = totals.products, *const sums = totals.sums;
  const bool converts = converts_pairs();
  const auto result = [&](int64_t i, auto m) __attribute__((always_inline)) {
    fetch(next, i);
    const V h = load_wide(grad + i, m), w = h * load_wide(scale + i, m);
    if constexpr (!kTakesProduct) return fused(w, factor, shift);
    const V d = load_wide(x + i, m) - pivot;
    if constexpr (kHasTotals) {
      const V z = fused(d, normal.factor, normal.shift);
      store_vector(products + i, fused(h, z, load_vector<V>(products + i)));
      store_vector(sums + i, load_vector<V>(sums + i) + h);
    }
    return fused(w, factor, fused(d, slope, shift));
  };
  int64_t i = 0;
  for (; i + 2 * kStep <= n; i += 2 * kStep)
    put_pair(dx + i, result(i, Whole{}), result(i + kStep, Whole{}), is_streamed, false, converts);
  for_lanes<A>(i, n, [&](int64_t j, int, auto m) { store_narrow(dx + j, result(j, m), m); });
}

/// The same where factors so large or small that they must not be joined.
template <class D, class T, class G>
[[gnu::noinline, gnu::cold]] void write_apart(bool takes_product, D* dx, const GradRow<T, G>& row,
                                              const Acc<T>* scale, int64_t n) {
  const CellState<Acc<T>>& s = row.state;
  const double factor = double(s.normal.factor);
  for (int64_t i = 0; i < n; ++i) {
    double d = double(load_as_acc(row.grad[i])) * double(scale[i]) - double(s.mean_w);
    if (takes_product) {
      const double z =
          (double(load_as_acc(row.x[i])) - double(s.normal.pivot)) - double(s.normal.delta);
      d -= z * factor * double(s.mean_wz);
    }
    dx[i] = store_as<D>(static_cast<Acc<T>>(factor * d));
  }
}

/// dx = factor * (w - mean_w - z * mean_wz), the last where it is there. Returns whether the row
/// has been added to the totals, too, if there are any.
template <class D, class T, class G>
bool write_dx_row(bool takes_product, D* dx, const GradRow<T, G>& row, const Acc<T>* scale,
                  int64_t n, bool is_streamed, const RowTotals<Acc<T>>& totals = {}) {
  JoinedDx<Acc<T>> formula(row.state);
  if (!formula.take(1)) {
    write_apart(takes_product, dx, row, scale, n);
    return false;
  }
  const bool has_totals = takes_product && totals.products;
  if (!takes_product)
    write_joined<false, false>(dx, row, scale, n, is_streamed, formula, totals);
  else if (!has_totals)
    write_joined<true, false>(dx, row, scale, n, is_streamed, formula, totals);
  else
    write_joined<true, true>(dx, row, scale, n, is_streamed, formula, totals);
  return has_totals;
}

/// Adds kCount vectors of each row from position i on, in the rows' order.
template <bool kHasProducts, bool kHasSums, int kCount, class T, class G, class Lanes>
[[gnu::always_inline]] inline void add_columns(const GradRow<T, G>* rows, int64_t count,
                                               const RowTotals<Acc<T>>& totals, int64_t i,
                                               Lanes m) {
  using A = Acc<T>;
  using V = Vector<A>;
  constexpr int64_t kStep = kLanes<A>;
  V products[kCount] = {}, sums[kCount] = {};
#pragma GCC unroll 4
  for (int k = 0; k < kCount; ++k) {
    if constexpr (kHasProducts) products[k] = load_vector<V>(totals.products + i + k * kStep);
    if constexpr (kHasSums) sums[k] = load_vector<V>(totals.sums + i + k * kStep);
  }
  for (int64_t r = 0; r < count; ++r) {
    const NormalLanes<A> normal(rows[r].state.normal);
#pragma GCC unroll 4
    for (int k = 0; k < kCount; ++k) {
      const int64_t at = i + k * kStep;
      const V h = load_wide(rows[r].grad + at, m);
      if constexpr (kHasProducts)
        products[k] = fused(h, normal(load_wide(rows[r].x + at, m)), products[k]);
      if constexpr (kHasSums) sums[k] += h;
    }
  }
#pragma GCC unroll 4
  for (int k = 0; k < kCount; ++k) {
    if constexpr (kHasProducts) store_vector(totals.products + i + k * kStep, products[k]);
    if constexpr (kHasSums) store_vector(totals.sums + i + k * kStep, sums[k]);
  }
}

/// Adds rows to the totals. These are read and written once for all rows: each of their stores
/// waits until those of dx before it are done.
template <bool kHasProducts, bool kHasSums, class T, class G>
[[gnu::noinline]] void add_rows(const GradRow<T, G>* rows, int64_t count,
                                const RowTotals<Acc<T>>& totals, int64_t n) {
  constexpr int64_t kStep = 4 * kLanes<Acc<T>>;
  int64_t i = 0;
  for (; i + kStep <= n; i += kStep)
    add_columns<kHasProducts, kHasSums, 4>(rows, count, totals, i, Whole{});
  for_lanes<Acc<T>>(i, n, [&](int64_t j, int, auto m) {
    add_columns<kHasProducts, kHasSums, 1>(rows, count, totals, j, m);
  });
}

/// The same with what is wanted told at run time.
template <class T, class G>
void add_rows_to(const RowTotals<Acc<T>>& totals, const GradRow<T, G>* rows, int64_t count,
                 int64_t n) {
  if (!totals.products) return add_rows<false, true>(rows, count, totals, n);
  if (!totals.sums) return add_rows<true, false>(rows, count, totals, n);
  add_rows<true, true>(rows, count, totals, n);
}

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
