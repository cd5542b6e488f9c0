// Gradients of short planes by the paths of planes side by side.
#include "cpu/pool_grad/turned.h"

#include "cpu/pool_grad/covers.h"
#include "cpu/simd/lanes.h"
#include "cpu/simd/square.h"
#include "cpu/threads/arena.h"
#include "cpu/threads/parallel.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

/// Planes of `n` elements that lie `pitch` apart, of which `count` exist.
template <class E>
struct Planes {
  E* at;
  int64_t pitch, n, count;

  /// Those beyond the last one are the last one again.
  E* plane(int64_t i) const { return at + std::min(i, count - 1) * pitch; }
};

/// Puts planes side by side: `lanes` of them, a multiple of kSide.
template <class E>
[[gnu::noinline]] void turn_in(const Planes<const E> planes, int64_t lanes, E* to) {
  constexpr int64_t k = kSide<E>;
  for (int64_t lane = 0; lane < lanes; lane += k) {
    const E* from[k];
    for (int64_t r = 0; r < k; ++r) from[r] = planes.plane(lane + r);
    for (int64_t i = 0; i < planes.n && planes.n < k; ++i)
      for (int64_t r = 0; r < k; ++r) to[i * lanes + lane + r] = from[r][i];
    for (int64_t i = 0; i < planes.n && planes.n >= k; i += k) {
      i = std::min(i, planes.n - k);
      SquareRow<E> rows[k];
#pragma GCC unroll 16
      for (int64_t r = 0; r < k; ++r) rows[r] = load_vector<SquareRow<E>>(from[r] + i);
      turn<E>(rows);
#pragma GCC unroll 16
      for (int64_t r = 0; r < k; ++r) store_vector(to + (i + r) * lanes + lane, rows[r]);
    }
  }
}

/// Takes planes back from beside each other. Lanes beyond the last plane are the same as it.
template <class E>
[[gnu::noinline]] void turn_out(const Planes<E> planes, int64_t lanes, const E* from) {
  constexpr int64_t k = kSide<E>;
  for (int64_t lane = 0; lane < planes.count; lane += k) {
    E* to[k];
    for (int64_t r = 0; r < k; ++r) to[r] = planes.plane(lane + r);
    const int64_t count = std::min(k, planes.count - lane);
    for (int64_t i = 0; i < planes.n && planes.n < k; ++i)
      for (int64_t r = 0; r < count; ++r) to[r][i] = from[i * lanes + lane + r];
    for (int64_t i = 0; i < planes.n && planes.n >= k; i += k) {
      i = std::min(i, planes.n - k);
      SquareRow<E> rows[k];
#pragma GCC unroll 16
      for (int64_t r = 0; r < k; ++r)
        rows[r] = load_vector<SquareRow<E>>(from + (i + r) * lanes + lane);
      turn<E>(rows);
#pragma GCC unroll 16
      for (int64_t r = 0; r < k; ++r) store_vector(to[r] + i, rows[r]);
    }
  }
}

int64_t size_of_plane(const PoolPlan& f, int64_t PoolAxis::* size) {
  return f.axis[0].*size * (f.axis[1].*size) * (f.axis[2].*size);
}

bool is_packed(const PoolPlan& f, const PoolStrides& strides, int64_t PoolAxis::* size) {
  int64_t step = 1;
  for (int i = 2; i >= 0; step *= f.axis[i--].*size)
    if (f.axis[i].*size > 1 && strides.space[i] != step) return false;
  return true;
}

void place(const PoolPlan& f, int64_t lanes, int64_t PoolAxis::* size, PoolStrides& strides) {
  strides = {{0, 1}, {}};
  for (int i = 2; i >= 0; lanes *= f.axis[i--].*size) strides.space[i] = lanes;
}

/// The tensors of a group of planes.
template <class E>
class Turned {
 public:
  Turned(const TurnedShape& shape, const PoolGradPlan& plan, const Arrays& arrays)
      : s_(shape), plan_(plan), a_(arrays), inner_(shape.inner(plan)) {}

  void run(Paths<PoolGradPlan> paths) const {
    const auto& path = paths[size_t(choose::first(paths, inner_, Machine{num_threads()}))];
    const TaskSpace space = plane_tasks(plan_, true, s_.lanes);
    parallel_for(space.count(), plan_.compulsory_bytes(), [&](int64_t begin, int64_t end) {
      const Room<Elements<char, size_t(TurnedShape::kBytes)>> room;
      for_tasks(space, begin, end, [&](const Task& task, int64_t) { group(task, room->at, path); });
    });
  }

 private:
  void group(const Task& task, char* room, const Path<PoolGradPlan>& path) const {
    const PoolPlan& f = plan_.forward;
    Arrays arrays;
    E* to = reinterpret_cast<E*>(room);
    const auto take = [&](int i, int64_t offset, int64_t pitch, int64_t n) {
      turn_in<E>({static_cast<const E*>(a_.inputs[i]) + offset, pitch, n, task.n}, s_.lanes, to);
      arrays.inputs[i] = to;
      to += n * s_.lanes;
    };
    const bool has_norms = f.kind == PoolKind::lp;
    if (f.kind != PoolKind::average) take(0, task.flat, f.x.batch[1], s_.x);
    if (has_norms) take(1, task.indices, f.indices.batch[1], s_.y);
    take(has_norms ? 2 : 1, task.y, f.y.batch[1], s_.y);
    arrays.outputs[0] = to;
    path.run(inner_, arrays);
    turn_out<E>({static_cast<E*>(a_.outputs[0]) + task.x, plan_.result.batch[1], s_.x, task.n},
                s_.lanes, to);
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

TurnedShape::TurnedShape(const PoolGradPlan& plan) {
  const PoolPlan& f = plan.forward;
  x = size_of_plane(f, &PoolAxis::in);
  y = size_of_plane(f, &PoolAxis::out);
  const int64_t bytes = size_of(f.dtype), vector = kVectorBytes / bytes, line = 64 / bytes;
  const int64_t elements = f.kind == PoolKind::average ? x + y
                           : f.kind == PoolKind::lp    ? 2 * x + 2 * y
                                                       : 2 * x + y;
  room = std::min(kBytes / (bytes * elements), kMostLanes) / line * line;
  if (room > 0) lanes = (even_part(f.batch[1], room) + vector - 1) / vector * vector;
}

bool TurnedShape::fits(const PoolGradPlan& plan) {
  const PoolPlan& f = plan.forward;
  const TurnedShape shape(plan);
  if (f.kind == PoolKind::lp &&
      (plan.norm_dtype != f.dtype || !is_packed(f, f.indices, &PoolAxis::out)))
    return false;
  // Planes of one element are side by side.
  return is_packed(f, f.x, &PoolAxis::in) && is_packed(f, plan.result, &PoolAxis::in) &&
         is_packed(f, f.y, &PoolAxis::out) && f.batch[1] >= kFewest && shape.lanes > 0 &&
         shape.x > 1;
}

PoolGradPlan TurnedShape::inner(const PoolGradPlan& plan) const {
  PoolGradPlan inner = plan;
  PoolPlan& f = inner.forward;
  f.outer_rank = 0;
  f.batch[0] = 1;
  f.batch[1] = lanes;
  place(f, lanes, &PoolAxis::in, f.x);
  place(f, lanes, &PoolAxis::in, inner.result);
  place(f, lanes, &PoolAxis::out, f.y);
  place(f, lanes, &PoolAxis::out, f.indices);
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
