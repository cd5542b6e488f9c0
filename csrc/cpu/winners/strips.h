// Winners by strips: rows are joined first, then the columns of the joined line.
#pragma once

#include "cpu/winners/columns.h"
#include "cpu/winners/strip_winners.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

template <class Op>
class LineWinners : StripWinners<Op> {
  using Base = StripWinners<Op>;
  using Base::plan_, Base::op_, Base::shape_, Base::x_, Base::fetches_, Base::rows_;
  using Base::value_, Base::place_;
  using typename Base::T, typename Base::V, typename Base::P;

 public:
  using Base::Base;

  void operator()(const Task& task) {
    Base::run_joined(task, [this](const Strip& s) { join_lines(s); });
  }

 private:
  [[gnu::noinline]] void join_lines(const Strip& s) {
    const auto& [task, c, lines] = s;
    const PoolAxis& w = plan_.axis[2];
    const int64_t line = c.n * task.n, pitch = line_pitch(c.columns * task.n);
    Ahead ahead;
    rows_.taps[0] = axis_taps(plan_.axis[0], task.space(0));
    for (int64_t i = 0; i < lines.lines; ++i) {
      rows_.find(plan_, x_ + task.x + lines.plane(i) * plan_.x.batch[1], lines.row(i));
      if (i == 0 && fetches_)
        ahead = ahead_of(plan_, shape_, rows_, c, lines.lines * Base::vectors_of(line));
      Base::fill_line(c, task.n, {value_.line + i * pitch, place_.line + i * pitch});
    }
    const ColumnShape shape{w.window, w.stride, w.dilation, task.n, c.n, 1, pitch};
    for (int64_t i = 0; i < lines.lines; ++i)
      join_winners<V>({value_.line + i * pitch, place_.line + i * pitch}, shape,
                      {value_.out + i * line, place_.out + i * line}, ahead);
  }
};

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
