// The passes over packed rows of a gradient: sums of w and of w * z, dx, and the totals of a few
// rows.
#pragma once

#include "cpu/mvn_grad/cell.h"
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

/// z = ((x - pivot) - delta) * factor
template <class A>
struct NormalLanes {
  Vector<A> pivot, delta, factor;

  explicit NormalLanes(const Normalizer<A>& n)
      : pivot(Vector<A>{} + n.pivot),
        delta(Vector<A>{} + n.delta),
        factor(Vector<A>{} + n.factor) {}
  Vector<A> operator()(Vector<A> x) const { return ((x - pivot) - delta) * factor; }
};

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

/// dx = factor * (w - mean_w - z * mean_wz), the last where it is there. D is T or the computing
/// type.
template <bool kTakesProduct, class D, class T, class G>
[[gnu::noinline]] void write_dx_as(D* dx, const GradRow<T, G>& row, const Acc<T>* scale, int64_t n,
                                   bool is_streamed) {
  using A = Acc<T>;
  using V = Vector<A>;
  constexpr int64_t kStep = kLanes<A>;
  const NormalLanes<A> normal(row.state.normal);
  const V minus_mean = V{} - row.state.mean_w, slope = V{} - row.state.mean_wz;
  const T *const x = row.x, *const next = row.next[1];
  const G* const grad = row.grad;
  const bool converts = converts_pairs();
  const auto result = [&](int64_t i, auto m) __attribute__((always_inline)) {
    fetch(next, i);
    V d = fused(load_wide(grad + i, m), load_wide(scale + i, m), minus_mean);
    if constexpr (kTakesProduct) d = fused(normal(load_wide(x + i, m)), slope, d);
    return normal.factor * d;
  };
  int64_t i = 0;
  for (; i + 2 * kStep <= n; i += 2 * kStep)
    put_pair(dx + i, result(i, Whole{}), result(i + kStep, Whole{}), is_streamed, false, converts);
  for_lanes<A>(i, n, [&](int64_t j, int, auto m) { store_narrow(dx + j, result(j, m), m); });
}

/// The same with what is there told at run time.
template <class D, class T, class G>
void write_dx_row(bool takes_product, D* dx, const GradRow<T, G>& row, const Acc<T>* scale,
                  int64_t n, bool is_streamed) {
  if (takes_product) return write_dx_as<true>(dx, row, scale, n, is_streamed);
  write_dx_as<false>(dx, row, scale, n, is_streamed);
}

/// What rows are added to, a number for each position, up to a whole vector; null where it is not
/// wanted.
template <class A>
struct RowTotals {
  A *products = nullptr, *sums = nullptr;  // of h * z; of h
};

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
