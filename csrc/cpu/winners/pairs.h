// Winners of every second column of windows of two or three: rows and columns are joined in
// registers, in visiting order.
#pragma once

#include "cpu/winners/columns.h"
#include "cpu/winners/shape.h"
#include "cpu/winners/strip_winners.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

/// Rows of taps: where their columns 0 are, and the positions of these.
template <class T, class P>
struct FoldedRows {
  const T* const* at;
  const P* place;
  int64_t count;
  P step;  // from one column to the next
};

/// Columns `base` + 2 * i and the one behind make output i, and where kWide the one before; column
/// -1 is none. Whole vectors are read and written.
template <bool kWide, class Op, class T, class V, class P>
[[gnu::noinline]] void fold_winners(const Op& op, const FoldedRows<T, P>& rows, int64_t base,
                                    int64_t n, WinnerLine<V> out, Ahead& ahead) {
  constexpr int64_t kStep = kLanes<V>;
  constexpr auto kAll = std::make_index_sequence<size_t(kStep)>{};
  Vector<V> before[kMostFoldedRows];
  for (int64_t r = 0; kWide && r < rows.count; ++r)
    before[r] = all_lanes(base == 1 ? V(op.load(rows.at[r])[0]) : Op::none());
  Vector<P> ramp, edge = {};  // edge: lanes whose column before does not exist
  for (int64_t j = 0; j < kStep; ++j) ramp[j] = P(base + 2 * j) * rows.step;
  if (base == 0) edge[0] = -1;
  Ahead next = ahead;
  for (int64_t i = 0; i < n; i += kStep) {
    Vector<V> best{};
    Vector<P> place{};
    for (int64_t r = 0; r < rows.count; ++r) {  // rows by themselves first: none waits for another
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

template <class Op>
class PairWinners : protected StripWinners<Op> {
 protected:
  using Base = StripWinners<Op>;
  using Base::plan_, Base::op_, Base::shape_, Base::x_, Base::end_, Base::fetches_, Base::rows_;
  using Base::row_place_, Base::value_, Base::place_;
  using typename Base::T, typename Base::V, typename Base::P;

 public:
  using Base::Base;

  void operator()(const Task& task) {
    Base::run_joined(task, [this](const Strip& s) { fold_lines(s); });
  }

 protected:
  /// Lines of pairs of columns, rows and columns joined in registers.
  [[gnu::noinline]] void fold_lines(const Strip& s) {
    const auto& [task, c, lines] = s;
    const PoolAxis& w = plan_.axis[2];
    rows_.taps[0] = axis_taps(plan_.axis[0], task.space(0));
    const int64_t base = w.window == 3 ? 1 - w.start : 0;
    const int64_t reach = base + Base::vectors_of(c.n) * 2 * kLanes<V>;
    Ahead ahead;
    const Interior whole = interior_of(plan_.axis[1], lines.first, lines.first + lines.rows);
    const T* plane = x_ + task.x;
    for (int64_t i = 0, o = lines.first; i < lines.lines; ++i, ++o) {
      const WinnerLine<V> out{value_.out + i * c.n, place_.out + i * c.n};
      rows_.follow(plan_, lines, whole, o, plane);
      if (i == 0 && fetches_) ahead = near_ahead(plan_, rows_, Base::vectors_of(c.n));
      if (rows_.count == 0 || end_ - rows_.at[rows_.count - 1] < reach) {
        Base::fill_line(c, 1, {value_.line, place_.line});
        const ColumnShape shape{w.window, w.stride, w.dilation, 1, c.n, 1, line_pitch(c.columns)};
        Ahead none;
        join_winners<V>({value_.line, place_.line}, shape, out, none);
      } else {
        Base::number_rows();
        const P step = P(plan_.flat.space[2]);
        const FoldedRows<T, P> rows{rows_.at, row_place_, rows_.count, step};
        if (w.window == 3)
          fold_winners<true>(op_, rows, base, c.n, out, ahead);
        else
          fold_winners<false>(op_, rows, base, c.n, out, ahead);
      }
    }
  }
};

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
