// Winners of planes that one window covers each.
#pragma once

#include "cpu/winners/whole_plane.h"
#include "cpu/winners/winner_pool.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

/// One window that covers each plane, whose elements stand together: planes in a row of tasks.
template <class Op>
class PlaneWinners : WinnerPool<typename Op::Element> {
  using E = typename Op::Element;
  using Base = WinnerPool<E>;
  using Base::plan, Base::put_index, Base::x, Base::y;

 public:
  PlaneWinners(const Op& op, const Base& base) : Base(base), op_(op) {}

  void operator()(const Task& task) const {
    const int64_t n = plan.axis[2].in;
    for (int64_t i = 0; i < task.n; checkpoint_for(n), ++i) {
      const E* const plane = x + task.x + i * plan.x.batch[1];
      const int64_t winner = winner_of(op_, plane, n);
      if (y) y[task.y + i * plan.y.batch[1]] = plane[winner];
      put_index(task.indices + i * plan.indices.batch[1],
                task.flat + i * plan.flat.batch[1] + winner * plan.flat.space[2]);
    }
  }

 private:
  Op op_;
};

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
