// Windows that advance by one on planes without gaps, as long as their outputs: a plane is one
// line, rows are joined first, then columns, without those that stand in another row.
#pragma once

#include "cpu/pool/strip_pool.h"
#include "cpu/pool/strip_shape.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

template <class Op, class Finish>
class PackedPlanePool : StripPool<Op, Finish> {
  using Base = StripPool<Op, Finish>;
  using Base::finish, Base::op, Base::plan, Base::x, Base::end;
  using Base::shape_, Base::fetches_, Base::rows_, Base::sink_, Base::room_;
  using typename Base::T, typename Base::V;

 public:
  PackedPlanePool(const typename Base::Base& base, const StripShape& shape) : Base(base, shape) {
    segment_ = lines_at_once<V>(plan.axis[2].in * shape.lanes) * plan.axis[2].in * shape.lanes;
    number_columns(plan.axis[2], shape.lanes, segment_, room_.spare);
  }

  void operator()(const Task& task) {
    const Strip s(plan, shape_, task);
    T* const to = sink_.room(task.y, s);
    double counts[kMostLines];
    if constexpr (Base::kDirect) {
      join_planes(s, to, counts);
    } else {
      join_planes(s, room_.out, counts);
      Base::finish_lines(s, counts, to);
    }
    sink_.put(task.y, s);
  }

 private:
  /// The processor itself fetches these in time; to fetch them again takes longer.
  bool has_short_rows() const { return plan.axis[2].in * shape_.lanes * int64_t(sizeof(T)) <= 256; }

  [[gnu::noinline]] void join_planes(const Strip& strip, V* joined, double* counts) {
    const auto& [task, c, lines] = strip;
    const PoolAxis &h = plan.axis[1], &w = plan.axis[2];
    constexpr int64_t kAlign = 64 / int64_t(sizeof(V));
    const int64_t row = w.in * task.n;
    V* const line = room_.line + (w.start * task.n + kAlign - 1) / kAlign * kAlign;
    ColumnShape s{w.window, 1, w.dilation, task.n, c.n, lines.lines, 0};
    const bool fetches = fetches_ && !has_short_rows();
    Ahead ahead;
    rows_.taps[0] = axis_taps(plan.axis[0], task.space(0));
    const Interior whole = interior_of(h, lines.first, lines.first + lines.rows);
    for (int64_t i = 0, n; i < lines.lines; i += n) {
      const int64_t o = lines.row(i);
      rows_.find(plan, x + task.x + lines.plane(i) * plan.x.batch[1], o);
      n = o >= whole.from && o < whole.to ? whole.to - o : 1;
      std::fill_n(counts + i, n, Base::counted_rows());
      if (i == 0 && fetches) ahead = ahead_of(plan, shape_, rows_, {}, s.fetches(kLanes<V>));
      if (rows_.count > 0)
        join_rows(op, rows_.at, rows_.count, 0, n * row, end, line + i * row);
      else
        fill_values(line + i * row, n * row, Op::none());
    }
    s.columns *= s.lines;
    s.lines = 1;
    const PackedLines<V> packed{room_.spare, segment_, w.start, w.in};
    if (s.window == 3)
      join_packed<3, typename Op::Join>(line, s, packed, Op::none(), joined, ahead);
    else
      join_packed<0, typename Op::Join>(line, s, packed, Op::none(), joined, ahead);
  }

  int64_t segment_;  // values whose columns are numbered in room_.spare
};

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
