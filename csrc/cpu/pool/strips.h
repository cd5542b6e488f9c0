// Windows along rows: the rows are joined first, then the columns of the joined line.
#pragma once

#include "cpu/pool/strip_pool.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

template <class Op, class Finish>
class LinePool : StripPool<Op, Finish> {
  using Base = StripPool<Op, Finish>;
  using Base::finish, Base::op, Base::plan, Base::x, Base::end;
  using Base::shape_, Base::fetches_, Base::rows_, Base::sink_, Base::room_;
  using typename Base::T, typename Base::V;

 public:
  using Base::Base;

  void operator()(const Task& task) {
    const Strip s(plan, shape_, task);
    T* const to = sink_.room(task.y, s);
    double counts[kMostLines];
    if constexpr (Base::kDirect) {
      join_lines(s, to, counts);
    } else {
      join_lines(s, room_.out, counts);
      Base::finish_lines(s, counts, to);
    }
    sink_.put(task.y, s);
  }

 private:
  [[gnu::noinline]] void join_lines(const Strip& strip, V* joined, double* counts) {
    const auto& [task, c, lines] = strip;
    const PoolAxis& w = plan.axis[2];
    const ColumnShape s{
        w.window, w.stride, w.dilation, task.n, c.n, lines.lines, line_pitch(c.columns * task.n)};
    V* line = room_.line + skew_of(c, task.n);
    Ahead ahead;
    const T* plane = x + task.x;
    rows_.taps[0] = axis_taps(plan.axis[0], task.space(0));
    const Interior whole = interior_of(plan.axis[1], lines.first, lines.first + lines.rows);
    int64_t o = lines.first;
    for (int64_t i = 0; i < lines.lines; ++i, ++o, line += s.pitch) {
      rows_.follow(plan, lines, whole, o, plane);
      if (i == 0 && fetches_) ahead = ahead_of(plan, shape_, rows_, c, s.fetches(kLanes<V>));
      counts[i] = Base::counted_rows();
      Base::fill_line(c, task.n, line);
    }
    join_columns<typename Op::Join>(line - lines.lines * s.pitch, s, room_.spare, joined, ahead);
  }

  /// Lines begin so that their real columns are aligned.
  static int64_t skew_of(const StripColumns& c, int64_t lanes) {
    constexpr int64_t kAlign = 64 / int64_t(sizeof(V));
    return int64_t(-uint64_t((c.low - c.begin) * lanes) % kAlign);
  }
};

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
