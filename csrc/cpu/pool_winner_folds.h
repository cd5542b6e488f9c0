// Winners of every second column, of windows of two or three: rows and columns are joined in
// registers, in visiting order.
#pragma once

#include "cpu/pool_columns.h"
#include "cpu/pool_winner_lanes.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

/// Rows of taps: where their columns 0 are, and the positions of these.
template <class T, class P>
struct FoldedRows {
  static constexpr int64_t kMost = 16;

  const T* const* at;
  const P* place;
  int64_t count;
  P step;  // from one column to the next
};

/// Columns `base` + 2 * i and the one behind make output i, and where kWide the one before; column
/// -1 is none. Whole vectors are read and written. kRows is the number of rows, or 0 for any.
template <int kRows, bool kWide, class Op, class T, class V, class P>
[[gnu::noinline]] void fold_winners(const Op& op, const FoldedRows<T, P>& rows, int64_t base,
                                    int64_t n, WinnerLine<V> out, Ahead& ahead) {
  constexpr int64_t kStep = kLanes<V>;
  constexpr auto kAll = std::make_index_sequence<size_t(kStep)>{};
  const int64_t count = kRows ? kRows : rows.count;
  Vector<V> before[kRows ? kRows : FoldedRows<T, P>::kMost];
  for (int64_t r = 0; kWide && r < count; ++r)
    before[r] = all_lanes(base == 1 ? V(op.load(rows.at[r])[0]) : Op::none());
  Vector<P> ramp, edge = {};  // edge: lanes whose column before does not exist
  for (int64_t j = 0; j < kStep; ++j) ramp[j] = P(base + 2 * j) * rows.step;
  if (base == 0) edge[0] = -1;
  Ahead next = ahead;
  for (int64_t i = 0; i < n; i += kStep) {
    Vector<V> best{};
    Vector<P> place{};
#pragma GCC unroll 3
    for (int64_t r = 0; r < count; ++r) {  // rows by themselves first: none waits for another
      const T* const from = rows.at[r] + base + 2 * i;
      const auto a = op.load(from), b = op.load(from + kStep);
      const auto even = pick<0, 2>(a, b, kAll), odd = pick<1, 2>(a, b, kAll);
      const P at = rows.place[r];
      Vector<V> largest = even;
      Vector<P> where = all_lanes(at);
      if (kWide) {
        const auto left = pick<kStep - 1, 1>(before[r], odd, kAll);
        before[r] = odd;
        largest = edge != 0 ? even : left;
        where = edge != 0 ? where : all_lanes(P(at - rows.step));
        offer<V>(largest, where, even, all_lanes(at));
      }
      offer<V>(largest, where, odd, all_lanes(P(at + rows.step)));
      if (r == 0) {
        best = largest;
        place = where;
      } else {
        offer<V>(best, place, largest, where);
      }
    }
    store_vector(out.value + i, best);
    store_vector(out.place + i, place + ramp);
    ramp += P(2 * kStep) * rows.step;
    edge = Vector<P>{};
    next.fetch_near();
  }
  ahead.at = next.at;
}

/// Rows that are as many as the window has columns are counted at compile time.
template <class Op, class T, class V, class P>
void fold_winners(const Op& op, const FoldedRows<T, P>& rows, int64_t window, int64_t base,
                  int64_t n, WinnerLine<V> out, Ahead& ahead) {
  if (window == 3 && rows.count == 3) return fold_winners<3, true>(op, rows, base, n, out, ahead);
  if (window == 3) return fold_winners<0, true>(op, rows, base, n, out, ahead);
  if (rows.count == 2) return fold_winners<2, false>(op, rows, base, n, out, ahead);
  fold_winners<0, false>(op, rows, base, n, out, ahead);
}

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
