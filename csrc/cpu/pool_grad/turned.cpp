// Gradients of short planes by the paths of planes side by side.
#include "cpu/pool_grad/turned.h"

#include "cpu/pool_grad/covers.h"
#include "cpu/threads/arena.h"
#include "cpu/threads/parallel.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

/// The tensors of a group of planes.
template <class E>
class Turned {
 public:
  Turned(const TurnedShape& shape, const PoolGradPlan& plan, const Arrays& arrays)
      : s_(shape), plan_(plan), a_(arrays), inner_(shape.inner(plan)) {}

  void run(Paths<PoolGradPlan> paths) const {
    const auto& path = paths[size_t(choose::first(paths, inner_, Machine{num_threads()}))];
    const TaskSpace space = plane_tasks(plan_, true, s_.lanes.count);
    parallel_for(space.count(), plan_.compulsory_bytes(), [&](int64_t begin, int64_t end) {
      const Room<Elements<char, size_t(tuning::turn::kBytes)>> room;
      for_tasks(space, begin, end, [&](const Task& task, int64_t) { group(task, room->at, path); });
    });
  }

 private:
  void group(const Task& task, char* room, const Path<PoolGradPlan>& path) const {
    const PoolPlan& f = plan_.forward;
    Arrays arrays;
    E* to = reinterpret_cast<E*>(room);
    const auto take = [&](int i, int64_t offset, int64_t pitch, int64_t n) {
      turn_in<E>({static_cast<const E*>(a_.inputs[i]) + offset, pitch, n, task.n}, s_.lanes.count,
                 to);
      arrays.inputs[i] = to;
      to += n * s_.lanes.count;
    };
    const bool has_norms = f.kind == PoolKind::lp;
    if (f.kind != PoolKind::average) take(0, task.flat, f.x.batch[1], s_.x);
    if (has_norms) take(1, task.indices, f.indices.batch[1], s_.y);
    take(has_norms ? 2 : 1, task.y, f.y.batch[1], s_.y);
    arrays.outputs[0] = to;
    path.run(inner_, arrays);
    turn_out<E>({static_cast<E*>(a_.outputs[0]) + task.x, plan_.result.batch[1], s_.x, task.n},
                s_.lanes.count, to);
    checkpoint_for(s_.x * task.n);
  }

  const TurnedShape& s_;
  const PoolGradPlan& plan_;
  const Arrays& a_;
  const PoolGradPlan inner_;
};

template <class E>
void run_as(Paths<PoolGradPlan> paths, const PoolGradPlan& plan, const Arrays& a) {
  const TurnedShape shape(plan);
  Turned<E>(shape, plan, a).run(paths);
}

}  // namespace

TurnedShape::TurnedShape(const PoolGradPlan& plan)
    : x(plane_elements(plan.forward, &PoolAxis::in)),
      y(plane_elements(plan.forward, &PoolAxis::out)),
      lanes(plan.forward.dtype,
            plan.forward.kind == PoolKind::average ? x + y
            : plan.forward.kind == PoolKind::lp    ? 2 * x + 2 * y
                                                   : 2 * x + y,
            plan.forward.batch[1]) {}

bool TurnedShape::fits(const PoolGradPlan& plan) {
  const PoolPlan& f = plan.forward;
  if (f.kind == PoolKind::lp &&
      (plan.norm_dtype != f.dtype || !has_packed_planes(f, f.indices, &PoolAxis::out)))
    return false;
  const TurnedShape shape(plan);
  // Planes of one element are side by side.
  return has_packed_planes(f, f.x, &PoolAxis::in) &&
         has_packed_planes(f, plan.result, &PoolAxis::in) &&
         has_packed_planes(f, f.y, &PoolAxis::out) && f.batch[1] >= kFewest &&
         shape.lanes.count > 0 && shape.x > 1;
}

PoolGradPlan TurnedShape::inner(const PoolGradPlan& plan) const {
  PoolGradPlan inner = plan;
  PoolPlan& f = inner.forward;
  f.outer_rank = 0;
  f.batch[0] = 1;
  f.batch[1] = lanes.count;
  f.x = inner.result = strides_of_lanes(f, lanes.count, &PoolAxis::in);
  f.y = f.indices = strides_of_lanes(f, lanes.count, &PoolAxis::out);
  return inner;
}

void run_turned(Paths<PoolGradPlan> paths, const PoolGradPlan& plan, const Arrays& a) {
  switch (size_of(plan.forward.dtype)) {
    case 2: return run_as<uint16_t>(paths, plan, a);
    case 4: return run_as<uint32_t>(paths, plan, a);
    default: return run_as<uint64_t>(paths, plan, a);
  }
}

}  // namespace cudml::cpu::CUDML_ISA
