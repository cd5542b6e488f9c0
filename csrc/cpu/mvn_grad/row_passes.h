// The passes over a few packed rows of a gradient that share scale and totals: sums of w and of
// w * z together with the totals, then dx.
#pragma once

#include "cpu/mvn_grad/cell.h"
#include "cpu/mvn_grad/row_lanes.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

/// Rows that take turns, so that additions need not wait for each other: as many as leave their
/// statistics in registers. A row's bits do not depend on it.
constexpr int kRowsAtOnce = kHasLineVectors ? 4 : 2;

/// The longest stretch of a row whose sums stay in the computing type: chains of at most 1024
/// additions.
constexpr int64_t kSumStretch = 4096;

/// A row whose x is of the computing type; G is that of its gradient.
template <class A, class G>
struct GradRow {
  const A* x = nullptr;
  const G* grad = nullptr;
  const G *next_x = nullptr, *next_grad = nullptr;  // to be read ahead, or null
  CellState<A> state;
  double sum_w = 0, sum_wz = 0;
};

/// Reads ahead into the second-level cache, which has room for a few rows.
[[gnu::always_inline]] inline void fetch(const auto* row, int64_t i) {
  if (row) __builtin_prefetch(row + i, 0, 2);
}

/// What rows are added to, a number for each position, up to a whole vector; null where it is not
/// wanted.
template <class A>
struct RowTotals {
  A *products = nullptr, *sums = nullptr;  // of h * z; of h
};

/// z = ((x - pivot) - delta) * factor
template <class A>
struct NormalLanes {
  Vector<A> pivot, delta, factor;

  NormalLanes() = default;
  explicit NormalLanes(const Normalizer<A>& n)
      : pivot(Vector<A>{} + n.pivot),
        delta(Vector<A>{} + n.delta),
        factor(Vector<A>{} + n.factor) {}
  Vector<A> operator()(Vector<A> x) const { return ((x - pivot) - delta) * factor; }
};

/// What is read and added up. Lanes beyond a row's end add 0.
template <bool kHasZ, bool kHasProducts, bool kHasSums>
struct SumKind {};

template <int kRows, bool kHasZ, bool kHasProducts, bool kHasSums, class A, class G>
[[gnu::noinline]] void add_rows(SumKind<kHasZ, kHasProducts, kHasSums>, GradRow<A, G>* rows,
                                const A* scale, const RowTotals<A> totals, int64_t n) {
  using V = Vector<A>;
  NormalLanes<A> normal[kRows];
  const A* x[kRows];
  const G* grad[kRows];
  const G* next[kRows];
  for (int r = 0; r < kRows; ++r) {
    normal[r] = NormalLanes<A>(rows[r].state.normal);
    x[r] = rows[r].x;
    grad[r] = rows[r].grad;
    next[r] = rows[r].next_x;
    rows[r].sum_w = rows[r].sum_wz = 0;
  }
  for (int64_t first = 0; first < n; first += kSumStretch) {
    V sum_w[kRows] = {}, sum_wz[kRows] = {};
    for_lanes<A>(first, std::min(n, first + kSumStretch), [&](int64_t i, auto m) {
      const V s = load_wide(scale + i, m);
      V products = {}, sums = {};
      if constexpr (kHasProducts) products = load_wide(totals.products + i, Whole{});
      if constexpr (kHasSums) sums = load_wide(totals.sums + i, Whole{});
#pragma GCC unroll 4
      for (int r = 0; r < kRows; ++r) {
        fetch(next[r], i);
        const V h = load_wide(grad[r] + i, m), w = h * s;
        sum_w[r] += w;
        if constexpr (kHasZ) {
          const V z = select(m, normal[r](load_wide(x[r] + i, m)), V{});
          sum_wz[r] = fused(w, z, sum_wz[r]);
          if constexpr (kHasProducts) products = fused(h, z, products);
        }
        if constexpr (kHasSums) sums += h;
      }
      if constexpr (kHasProducts) store_narrow(totals.products + i, products, Whole{});
      if constexpr (kHasSums) store_narrow(totals.sums + i, sums, Whole{});
    });
    for (int r = 0; r < kRows; ++r) {
      rows[r].sum_w += lane_total<A>(sum_w[r]);
      rows[r].sum_wz += lane_total<A>(sum_wz[r]);
    }
  }
}

/// Rows [0, count), which are no more than kRowsAtOnce or go one by one.
template <class Kind, class A, class G>
void add_rows_of(Kind kind, GradRow<A, G>* rows, int64_t count, const A* scale,
                 const RowTotals<A>& totals, int64_t n) {
  if (count == kRowsAtOnce) return add_rows<kRowsAtOnce>(kind, rows, scale, totals, n);
  for (int64_t r = 0; r < count; ++r) add_rows<1>(kind, rows + r, scale, totals, n);
}

/// The same with what is wanted told at run time. Products need z.
template <class A, class G>
void add_rows_to(bool has_z, GradRow<A, G>* rows, int64_t count, const A* scale,
                 const RowTotals<A>& totals, int64_t n) {
  const auto add = [&](auto kind) { add_rows_of(kind, rows, count, scale, totals, n); };
  if (!has_z)
    return totals.sums ? add(SumKind<false, false, true>{}) : add(SumKind<false, false, false>{});
  if (totals.products)
    return totals.sums ? add(SumKind<true, true, true>{}) : add(SumKind<true, true, false>{});
  return totals.sums ? add(SumKind<true, false, true>{}) : add(SumKind<true, false, false>{});
}

/// A vector of dx; those to be streamed begin at a multiple of their size.
template <class T, class V, class Lanes>
[[gnu::always_inline]] inline void put_dx(T* dx, const V& v, Lanes m, bool is_streamed) {
  if constexpr (std::is_same_v<Lanes, Whole>)
    if (is_streamed) return stream_narrow(dx, v);
  store_narrow(dx, v, m);
}

/// dx = factor * (w - mean_w - z * mean_wz), the last where it is there.
template <bool kTakesProduct, class T, class G>
[[gnu::noinline]] void write_dx_as(T* dx, const GradRow<Acc<T>, G>& row, const Acc<T>* scale,
                                   int64_t n, bool is_streamed) {
  using A = Acc<T>;
  using V = Vector<A>;
  const NormalLanes<A> normal(row.state.normal);
  const V minus_mean = V{} - row.state.mean_w, slope = V{} - row.state.mean_wz;
  const A* const x = row.x;
  const G* const grad = row.grad;
  const G* const next = row.next_grad;
  for_lanes<A>(0, n, [&](int64_t i, auto m) {
    fetch(next, i);
    V d = fused(load_wide(grad + i, m), load_wide(scale + i, m), minus_mean);
    if constexpr (kTakesProduct) d = fused(normal(load_wide(x + i, m)), slope, d);
    put_dx(dx + i, normal.factor * d, m, is_streamed);
  });
}

/// The same with what is there told at run time.
template <class T, class G>
void write_dx_row(bool takes_product, T* dx, const GradRow<Acc<T>, G>& row, const Acc<T>* scale,
                  int64_t n, bool is_streamed) {
  if (takes_product) return write_dx_as<true>(dx, row, scale, n, is_streamed);
  write_dx_as<false>(dx, row, scale, n, is_streamed);
}

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
