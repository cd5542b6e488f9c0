// Planes of a few vectors that one window covers each, as many at once as a vector has lanes.
#pragma once

#include "cpu/pool/planes.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

template <class Op, class Finish>
class ShortPlanePool : PlanePool<Op, Finish> {
  using Base = PlanePool<Op, Finish>;
  using Base::op, Base::plan, Base::x;
  using typename Base::V;

 public:
  using Base::Base;

  void operator()(const Task& task) const {
    const int64_t pitch = plan.x.batch[1];
    V values[kPlanesAtOnce + kSlack];
    for (int64_t i = 0; i < task.n; i += kLanes<V>)
      store_vector(values + i,
                   join_spans(op, x + task.x + i * pitch, plan.axis[2].in, pitch, task.n - i));
    Base::put(task, values);
  }
};

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
