// Pooling of short planes by the paths of planes side by side.
#include "cpu/pool/turned.h"

#include "cpu/isa/families.h"
#include "cpu/pool/walk.h"
#include "cpu/simd/vector.h"
#include "cpu/threads/arena.h"
#include "cpu/threads/parallel.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

int64_t elements_of(const PoolPlan& plan) {
  return plane_elements(plan, &PoolAxis::in) + plane_elements(plan, &PoolAxis::out);
}

/// The plan of `lanes` planes side by side.
PoolPlan side_by_side(const PoolPlan& plan, int64_t lanes) {
  PoolPlan inner = plan;
  inner.outer_rank = 0;
  inner.batch[0] = 1;
  inner.batch[1] = lanes;
  inner.x = strides_of_lanes(plan, lanes, &PoolAxis::in);
  inner.y = strides_of_lanes(plan, lanes, &PoolAxis::out);
  return inner;
}

/// Groups of planes, with all outputs of theirs.
TaskSpace groups_of(const PoolPlan& plan, int64_t lanes) {
  TaskSpace space = make_tasks(plan, Lane::batch, lanes);
  for (int i = 0; i < 3; ++i) space.dim[kSpaceDim + i] = {};
  return space;
}

template <class E>
void run_as(const PoolPlan& plan, const Arrays& a) {
  const int64_t lanes = TurnedLanes(plan.dtype, elements_of(plan), plan.batch[1]).count;
  const PoolPlan inner = side_by_side(plan, lanes);
  const Paths<PoolPlan> paths = pool_paths();
  const auto& path = paths[size_t(choose::first(paths, inner, Machine{num_threads()}))];
  const TaskSpace space = groups_of(plan, lanes);
  const int64_t in = plane_elements(plan, &PoolAxis::in),
                out = plane_elements(plan, &PoolAxis::out);
  parallel_for(space.count(), work_bytes(plan), [&](int64_t begin, int64_t end) {
    const Room<Elements<char, size_t(tuning::turn::kBytes)>> room;
    E* const x = reinterpret_cast<E*>(room->at);
    E* const y = x + in * lanes;
    Arrays arrays;
    arrays.inputs[0] = x;
    arrays.outputs[0] = y;
    for_tasks(space, begin, end, [&](const Task& task, int64_t) {
      const E* const from = static_cast<const E*>(a.inputs[0]) + task.x;
      turn_in<E>({from, plan.x.batch[1], in, task.n}, lanes, x);
      path.run(inner, arrays);
      turn_out<E>({static_cast<E*>(a.outputs[0]) + task.y, plan.y.batch[1], out, task.n}, lanes, y);
      checkpoint_for(in * task.n);
    });
  });
}

}  // namespace

TurnedLanes::TurnedLanes(Dtype dtype, int64_t elements, int64_t planes) {
  const int64_t bytes = size_of(dtype), vector = kVectorBytes / bytes, line = 64 / bytes;
  room = std::min(tuning::turn::kBytes / (bytes * elements), tuning::turn::kLanes) / line * line;
  if (room > 0) count = (even_part(planes, room) + vector - 1) / vector * vector;
}

int64_t plane_elements(const PoolPlan& plan, int64_t PoolAxis::* size) {
  return plan.axis[0].*size * (plan.axis[1].*size) * (plan.axis[2].*size);
}

bool has_packed_planes(const PoolPlan& plan, const PoolStrides& strides, int64_t PoolAxis::* size) {
  int64_t step = 1;
  for (int i = 2; i >= 0; step *= plan.axis[i--].*size)
    if (plan.axis[i].*size > 1 && strides.space[i] != step) return false;
  return true;
}

PoolStrides strides_of_lanes(const PoolPlan& plan, int64_t lanes, int64_t PoolAxis::* size) {
  PoolStrides strides = {{0, 1}, {}};
  for (int i = 2; i >= 0; lanes *= plan.axis[i--].*size) strides.space[i] = lanes;
  return strides;
}

bool fits_turned(const PoolPlan& plan) {
  // Planes of one element are side by side, and one window over a plane joins it along its rows.
  return plane_elements(plan, &PoolAxis::out) > 1 && plan.batch[1] >= tuning::turn::kFewest &&
         has_packed_planes(plan, plan.x, &PoolAxis::in) &&
         has_packed_planes(plan, plan.y, &PoolAxis::out) &&
         TurnedLanes(plan.dtype, elements_of(plan), plan.batch[1]).room >= tuning::turn::kFewest;
}

void run_turned(const PoolPlan& plan, const Arrays& a) {
  switch (size_of(plan.dtype)) {
    case 1: return run_as<uint8_t>(plan, a);
    case 2: return run_as<uint16_t>(plan, a);
    case 4: return run_as<uint32_t>(plan, a);
    default: return run_as<uint64_t>(plan, a);
  }
}

}  // namespace cudml::cpu::CUDML_ISA
