// Rows of outputs whose taps are joined in registers, rows first, then columns: of lines that see
// whole windows, all at once.
#pragma once

#include "cpu/pool/strip_pool.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

/// `count` rows of taps of each of `lines` rows of n outputs; they stand `step` elements after
/// those of the line before.
template <class T>
struct FoldedLines {
  const T* const* rows;
  int64_t count, step, n, lines;
};

/// A Fold tells how many elements of a row, from column 0 on, it reads for a strip, or that it
/// cannot (reach() < 0), what memory it fetches meanwhile (ahead()), and how lines are joined
/// (join()): that calls put(at, i, v) for every vector of outputs i, where `at` counts from the
/// first line on.
template <class Fold, class Op, class Finish>
class FoldPool : StripPool<Op, Finish> {
  using Base = StripPool<Op, Finish>;
  using Base::finish, Base::op, Base::plan, Base::x, Base::end;
  using Base::shape_, Base::fetches_, Base::rows_, Base::sink_, Base::room_;
  using typename Base::T, typename Base::V;
  /// Vectors become outputs one by one; else they are finished together.
  static constexpr bool kFinishes = Base::kStores || Base::kIsLarge;

 public:
  using Base::Base;

  void operator()(const Task& task) {
    const Strip s(plan, shape_, task);
    T* const to = sink_.room(task.y, s);
    double counts[kMostLines];
    fold_lines(s, to, counts);
    if constexpr (!kFinishes) Base::finish_lines(s, counts, to);
    sink_.put(task.y, s);
  }

 private:
  [[gnu::noinline]] void fold_lines(const Strip& s, T* to, double* counts) {
    const auto& [task, c, lines] = s;
    const PoolAxis& h = plan.axis[1];
    Ahead ahead;
    rows_.taps[0] = axis_taps(plan.axis[0], task.space(0));
    const Interior whole = interior_of(h, lines.first, lines.first + lines.rows);
    const int64_t reach = Fold::template reach<V>(plan.axis[2], c);
    const int64_t step = h.stride * plan.x.space[1];
    V* joined = room_.out;
    for (int64_t i = 0, n; i < lines.lines; i += n, joined += n * c.n, to += n * c.n) {
      const int64_t o = lines.row(i);
      rows_.find(plan, x + task.x + lines.plane(i) * plan.x.batch[1], o);
      const double counted = Base::counted_rows();
      if (i == 0 && fetches_) ahead = Fold::ahead(plan, shape_, rows_, s, kLanes<V>);
      n = o >= whole.from && o < whole.to ? whole.to - o : 1;
      const int64_t left =
          rows_.count > 0 && reach >= 0 ? end - rows_.at[rows_.count - 1] - reach : -1;
      if (left < (n - 1) * step) n = left < 0 ? 1 : left / step + 1;
      if constexpr (!kFinishes) std::fill_n(counts + i, n, counted);
      const auto put = [=, op = this->op, last = finish.of_columns(counted, c.first)](
                           int64_t at, int64_t column, const Vector<V>& v) {
        if constexpr (kFinishes)
          op.store(to + at, last(v, column));
        else
          store_vector(joined + at, v);
      };
      const FoldedLines<T> t{rows_.at, rows_.count, step, c.n, n};
      if (left < 0)
        put_line(c, put);
      else
        Fold::join(op, plan.axis[2], c, t, fetches_, ahead, put);
    }
  }

  template <class Put>
  void put_line(const StripColumns& c, const Put& put) {
    join_line(c);
    for (int64_t j = 0; j < c.n; j += kLanes<V>) put(j, j, load_vector<Vector<V>>(room_.spare + j));
  }

  /// Joined values of a line into room_.spare.
  [[gnu::noinline]] void join_line(const StripColumns& c) {
    const PoolAxis& w = plan.axis[2];
    const ColumnShape s{w.window, w.stride, w.dilation, 1, c.n, 1, line_pitch(c.columns)};
    Base::fill_line(c, 1, room_.line);
    join_columns<typename Op::Join>(room_.line, s, room_.spare, room_.spare, Ahead{});
  }
};

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
