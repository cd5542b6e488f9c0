// Winners of short planes by the path of planes side by side.
#include "cpu/winners/turned.h"

#include "cpu/pool/walk.h"
#include "cpu/threads/arena.h"
#include "cpu/threads/parallel.h"
#include "cpu/winners/winners.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

/// Groups of planes put side by side, elements as E and indices as Index.
template <class E, class Index>
class Turned {
 public:
  Turned(const PoolPlan& plan, const Arrays& arrays)
      : plan_(plan), a_(arrays), s_(plan), inner_(s_.inner(plan)) {}

  void run() const {
    TaskSpace space = make_tasks(plan_, Lane::batch, s_.lanes.count);
    for (int i = 0; i < 3; ++i) space.dim[kSpaceDim + i] = {};
    parallel_for(space.count(), work_bytes(plan_), [&](int64_t begin, int64_t end) {
      const Room<Elements<char, size_t(tuning::turn::kBytes)>> room;
      for_tasks(space, begin, end, [&](const Task& task, int64_t) { group(task, room->at); });
    });
  }

 private:
  void group(const Task& task, char* room) const {
    const int64_t lanes = s_.lanes.count;
    Index* const indices = reinterpret_cast<Index*>(room);
    E* const x = reinterpret_cast<E*>(indices + s_.y * lanes);
    E* const y = a_.outputs[0] ? x + s_.x * lanes : nullptr;
    turn_in<E>({static_cast<const E*>(a_.inputs[0]) + task.x, plan_.x.batch[1], s_.x, task.n},
               lanes, x);
    max_winners(inner_, WinnerPath::lane_taps, x, y, indices);
    if (y)
      turn_out<E>({static_cast<E*>(a_.outputs[0]) + task.y, plan_.y.batch[1], s_.y, task.n}, lanes,
                  y);
    for (int64_t i = 0; i < s_.y * lanes; ++i)
      indices[i] = indices[i] == Index(-1) ? indices[i] : Index(indices[i] + Index(task.flat));
    turn_out<Index>(
        {static_cast<Index*>(a_.outputs[1]) + task.indices, plan_.indices.batch[1], s_.y, task.n},
        lanes, indices);
    checkpoint_for(s_.x * task.n);
  }

  const PoolPlan& plan_;
  const Arrays& a_;
  const TurnedWinners s_;
  const PoolPlan inner_;
};

template <class E>
void run_as(const PoolPlan& plan, const Arrays& a) {
  if (plan.index_dtype == Dtype::uint32)
    Turned<E, uint32_t>(plan, a).run();
  else
    Turned<E, uint64_t>(plan, a).run();
}

/// Lanes of the smaller ones of elements and indices, which take as much as both do.
TurnedLanes lanes_of(const PoolPlan& plan, int64_t x, int64_t y) {
  const int64_t element = size_of(plan.dtype), index = size_of(plan.index_dtype);
  const int64_t least = std::min(element, index), bytes = (x + y) * element + y * index;
  const Dtype narrow = index < element ? plan.index_dtype : plan.dtype;
  return TurnedLanes(narrow, std::max<int64_t>(1, (bytes + least - 1) / least), plan.batch[1]);
}

}  // namespace

TurnedWinners::TurnedWinners(const PoolPlan& plan)
    : x(plane_elements(plan, &PoolAxis::in)),
      y(plane_elements(plan, &PoolAxis::out)),
      lanes(lanes_of(plan, x, y)) {}

bool TurnedWinners::fits(const PoolPlan& plan) {
  // Planes of one element are side by side, and one window over a plane joins it along its rows.
  const TurnedWinners shape(plan);
  return shape.y > 1 && plan.batch[1] >= tuning::turn::kFewest &&
         has_packed_planes(plan, plan.x, &PoolAxis::in) &&
         has_packed_planes(plan, plan.y, &PoolAxis::out) &&
         has_packed_planes(plan, plan.indices, &PoolAxis::out) &&
         shape.lanes.room >= tuning::turn::kFewest;
}

PoolPlan TurnedWinners::inner(const PoolPlan& plan) const {
  PoolPlan inner = plan;
  inner.outer_rank = 0;
  inner.batch[0] = 1;
  inner.batch[1] = lanes.count;
  inner.x = strides_of_lanes(plan, lanes.count, &PoolAxis::in);
  inner.y = inner.indices = strides_of_lanes(plan, lanes.count, &PoolAxis::out);
  return inner;
}

void run_turned_winners(const PoolPlan& plan, const Arrays& a) {
  switch (size_of(plan.dtype)) {
    case 1: return run_as<uint8_t>(plan, a);
    case 2: return run_as<uint16_t>(plan, a);
    case 4: return run_as<uint32_t>(plan, a);
    default: return run_as<uint64_t>(plan, a);
  }
}

}  // namespace cudml::cpu::CUDML_ISA
