// Gradient of average pooling for planes that lie side by side: an element of each at once.
#pragma once

#include "cpu/pool_grad/average_gather.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

/// One element of many neighbouring planes.
template <class T, class Sum>
class LaneGather : AverageGather<T, Sum> {
  using Base = AverageGather<T, Sum>;
  using Base::f, Base::grad, Base::plan, Base::result;

 public:
  explicit LaneGather(const Base& base) : Base(base) {}

  TaskSpace tasks() const {
    TaskSpace space = plane_tasks(plan, true, kGatherLanes);
    for (int i = 0; i < 3; ++i)
      space.dim[kSpaceDim + i] = {f.axis[i].in, plan.result.space[i], 0, 0, 0};
    return space;
  }

  /// Columns of windows one after the other, the rows of each joined first: the order of RowGather,
  /// as where planes lie is not to change their bits.
  void operator()(const Task& task) const {
    Sum sums[kGatherLanes], column[kGatherLanes];
    for (int64_t i = 0; i < task.n; ++i) sums[i] = 0;
    const Covers above = covers_of(f.axis[0], task.space(0));
    const Covers rows = covers_of(f.axis[1], task.space(1));
    const Covers columns = covers_of(f.axis[2], task.space(2));
    Pace pace;
    for (int64_t c = columns.first; c <= columns.last; c += columns.step) {
      const Sum width = Sum(counted_at(f, 2, c));
      for (int64_t i = 0; i < task.n; ++i) column[i] = 0;
      for (int64_t a = above.first; a <= above.last; a += above.step)
        for (int64_t b = rows.first; b <= rows.last; b += rows.step, pace.add(task.n)) {
          const Sum count = Sum(counted_at(f, 0, a) * counted_at(f, 1, b));
          const T* src = grad + task.y + a * f.y.space[0] + b * f.y.space[1] + c * f.y.space[2];
          add(src, count * width, task.n, column);
        }
      for (int64_t i = 0; i < task.n; ++i) sums[i] += column[i];
    }
    store_sums<T>(result + task.x, plan.result.batch[1], sums, task.n);
  }

 private:
  void add(const T* src, Sum divisor, int64_t n, Sum* __restrict sums) const {
    Acc<T> room[kGatherLanes];
    load_grads<T>(room, src, f.y.batch[1], n);
    for (int64_t i = 0; i < n; ++i) sums[i] += Sum(room[i]) / divisor;
  }
};

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
