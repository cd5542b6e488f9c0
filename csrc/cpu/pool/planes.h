// Planes that one window covers each, without indices.
#pragma once

#include "cpu/memory/tuning.h"
#include "cpu/pool/value_pool.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

using tuning::pool::kPlanesAtOnce;

/// One window that covers each plane, whose elements stand together: planes in a row of tasks.
template <class Op, class Finish>
class PlanePool : protected ValuePool<Op, Finish> {
 protected:
  using Base = ValuePool<Op, Finish>;
  using Base::finish, Base::op, Base::plan, Base::x, Base::y;
  using typename Base::T, typename Base::V, typename Base::Total;

 public:
  explicit PlanePool(const Base& base) : Base(base) {}

  void operator()(const Task& task) const {
    const int64_t n = plan.axis[2].in, pitch = plan.x.batch[1];
    const T* plane = x + task.x;
    V values[kPlanesAtOnce + kSlack];
    for (int64_t i = 0; i < task.n; checkpoint_for(n), ++i, plane += pitch)
      values[i] = V(n <= kChain ? Total(join_span(op, plane, n)) : joined(plane, n));
    put(task, values);
  }

 protected:
  /// Outputs of what the planes of a task have been joined to.
  [[gnu::noinline]] void put(const Task& task, V* values) const {
    T out[kPlanesAtOnce + kSlack];
    finish.write(op, {0, 1, task.n, 1, double(plan.axis[2].in)}, values, out, [&](int64_t i) {
      return this->again(box_of(plan, task, 3), task.x + i * plan.x.batch[1]);
    });
    for (int64_t i = 0; i < task.n; ++i) y[task.y + i * plan.y.batch[1]] = out[i];
  }

 private:
  Total joined(const T* plane, int64_t n) const {
    Total total = join_span(op, plane, kChain);
    for (int64_t i = kChain; i < n; i += kChain)
      total = Op::join(total, Total(join_span(op, plane + i, std::min(kChain, n - i))));
    return total;
  }
};

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
