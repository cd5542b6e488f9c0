// Planes that one window covers each, without indices.
#pragma once

#include "cpu/pool/value_pool.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

/// One window that covers each plane, whose elements stand together: planes in a row of tasks.
template <class Op, class Finish>
class PlanePool : ValuePool<Op, Finish> {
  using Base = ValuePool<Op, Finish>;
  using Base::finish, Base::op, Base::plan, Base::x, Base::y;
  using typename Base::T, typename Base::V, typename Base::Total;

 public:
  static constexpr int64_t kChunk = 256;
  explicit PlanePool(const Base& base) : Base(base) {}

  static bool suits(const PoolPlan& p) {
    const PoolAxis& w = p.axis[2];
    const auto is_one_tap = [](const PoolAxis& a) {
      return a.in == 1 && a.out == 1 && a.window == 1 && a.start == 0;
    };
    return is_one_tap(p.axis[0]) && is_one_tap(p.axis[1]) && w.out == 1 && w.window == w.in &&
           w.start == 0 && w.end == 0 && w.dilation == 1 && p.x.space[2] == 1 && w.in < kPiece;
  }

  void operator()(const Task& task) const {
    const int64_t n = plan.axis[2].in;
    const T* plane = x + task.x;
    V values[kChunk + kSlack];
    const int64_t pitch = plan.x.batch[1];
    if (kTurns && n >= kLanes<V> && n < 16 * kLanes<V>) {
      if constexpr (kTurns)
        for (int64_t i = 0; i < task.n; i += kLanes<V>)
          store_vector(values + i, join_spans(op, plane + i * pitch, n, pitch, task.n - i));
    } else {
      for (int64_t i = 0; i < task.n; checkpoint_for(n), ++i, plane += pitch)
        values[i] = V(n <= kChain ? Total(join_span(op, plane, n)) : joined(plane, n));
    }
    T out[kChunk + kSlack];
    finish.write(op, {0, 1, task.n, 1, double(n)}, values, out, [&](int64_t i) {
      return this->again(box_of(plan, task, 3), task.x + i * plan.x.batch[1]);
    });
    for (int64_t i = 0; i < task.n; ++i) y[task.y + i * plan.y.batch[1]] = out[i];
  }

 private:
  /// Averages of short planes, as many at once as a vector has lanes.
  static constexpr bool kTurns =
      kIsHalf<T> && std::is_same_v<Finish, AverageFinish<T>> && Base::kIsLarge;
  Total joined(const T* plane, int64_t n) const {
    Total total = join_span(op, plane, kChain);
    for (int64_t i = kChain; i < n; i += kChain)
      total = Op::join(total, Total(join_span(op, plane + i, std::min(kChain, n - i))));
    return total;
  }
};

template <class Op, class Finish>
void pool_planes(const ValuePool<Op, Finish>& base) {
  using Planes = PlanePool<Op, Finish>;
  const TaskSpace space = make_tasks(base.plan, Lane::batch, Planes::kChunk);
  const Planes planes(base);
  parallel_for(space.count(), work_bytes(base.plan), [&](int64_t begin, int64_t end) {
    for_tasks(space, begin, end, [&](const Task& task, int64_t) { planes(task); });
  });
}

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
