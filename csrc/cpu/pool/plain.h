// One window after the other, without indices; takes any plan.
#pragma once

#include "cpu/pool/value_pool.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

/// One window at a time, vectors along its rows; takes any plan.
template <class Op, class Finish>
class WindowPool : ValuePool<Op, Finish> {
  using Base = ValuePool<Op, Finish>;
  using Base::op, Base::plan, Base::x, Base::y;
  using typename Base::T, typename Base::V;

 public:
  using typename Base::Total;
  static constexpr Lane kLane = Lane::none;
  static constexpr int64_t kChunk = 1;
  explicit WindowPool(const Base& base) : Base(base) {}
  static Total combine(Total a, Total b) { return Op::join(a, b); }

  void whole(const Task& task) const {
    const Box box = box_of(plan, task, 3);
    Total total = Op::none();
    if (box.taps > 0) piece(task, box, 0, box.taps, &total);
    store(task, box, &total);
  }

  void piece(const Task& task, const Box& box, int64_t f, int64_t end, Total* total) const {
    T room[kLine];
    TapCursor at(box, f);
    Pace pace;
    for (bool first = true; f < end; first = false) {
      const int64_t n = std::min({kLine, end - f, at.left_in_row()});
      const T* row = x + task.x + at.offset();
      if (const int64_t step = box.x_step[2]; step != 1 && n > 1) {
        for (int64_t i = 0; i < n; ++i) room[i] = row[i * step];
        row = room;
      }
      const Total joined = join_span(op, row, n);
      *total = first ? joined : Op::join(*total, joined);
      at.advance(n);
      f += n;
      pace.add(n);
    }
  }

  void store(const Task& task, const Box& box, const Total* total) const {
    Base::put(task.y, *total, box, task.x);
  }
};

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
