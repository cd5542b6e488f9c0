// How pooling walks its outputs and the taps of a window: tasks, boxes of real taps, cursors.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/hd.h"
#include "cpu/memory/tuning.h"
#include "cpu/threads/interrupt.h"
#include "ops/pool.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

/// Elements of a dimension from the first tap of a window to its last one.
inline int64_t span_of(const PoolAxis& w) { return (w.window - 1) * w.dilation + 1; }

/// Elements from the first to the last one that a window covers and the one before it does not, but
/// on the whole no more than there are: strides and dilations may be as large as pads are.
inline int64_t newly_covered(const PoolAxis& w) {
  return std::min({w.stride, span_of(w), (w.in + w.out - 1) / w.out});
}

/// The length of the longest of equal parts that are at most `most` long.
inline int64_t even_part(int64_t n, int64_t most) {
  const int64_t parts = (n + most - 1) / most;
  return (n + parts - 1) / parts;
}

/// The dimension of the output that the vectors of a task run along.
enum class Lane { none, batch, width };

struct TaskDim {
  int64_t size = 1, x = 0, y = 0, indices = 0, flat = 0;
};

constexpr int kBatchDim = kMaxRank, kSpaceDim = kBatchDim + 2, kLaneDim = kSpaceDim + 3;
constexpr int kTaskRank = kLaneDim + 1;

/// All outputs of a plan, cut into tasks of at most `chunk` neighbours along the lane dimension.
/// The cut depends on the plan alone.
struct TaskSpace {
  TaskDim dim[kTaskRank];
  int64_t lanes = 1, chunk = 1;

  [[gnu::noinline]] int64_t count() const {
    int64_t n = 1;
    for (const TaskDim& d : dim) n *= d.size;
    return n;
  }
};

/// One task: its place in every dimension, and the offsets of its plane in x and of its first
/// output.
struct Task {
  int64_t at[kTaskRank] = {};
  int64_t x = 0, y = 0, indices = 0, flat = 0;
  int64_t first = 0, n = 1;  // lanes [first, first + n)

  int64_t space(int i) const { return at[kSpaceDim + i]; }
  void move(const TaskDim& d, int64_t steps) {
    x += d.x * steps;
    y += d.y * steps;
    indices += d.indices * steps;
    flat += d.flat * steps;
  }
};

[[gnu::noinline]] inline TaskSpace make_tasks(const PoolPlan& p, Lane lane, int64_t chunk) {
  TaskSpace space;
  for (int i = 0; i < p.outer_rank; ++i) {
    const PoolOuter& o = p.outer[i];
    space.dim[i] = {o.size, o.x, o.y, o.indices, o.flat};
  }
  for (int i = 0; i < 2; ++i)
    space.dim[kBatchDim + i] = {p.batch[i], p.x.batch[i], p.y.batch[i], p.indices.batch[i],
                                p.flat.batch[i]};
  for (int i = 0; i < 3; ++i)
    space.dim[kSpaceDim + i] = {p.axis[i].out, 0, p.y.space[i], p.indices.space[i], 0};
  if (lane == Lane::none) return space;
  TaskDim& along = space.dim[lane == Lane::batch ? kBatchDim + 1 : kSpaceDim + 2];
  space.lanes = along.size;
  space.chunk = std::min(chunk, std::max<int64_t>(1, space.lanes));
  const int64_t c = space.chunk;
  space.dim[kLaneDim] = {(space.lanes + c - 1) / c, along.x * c, along.y * c, along.indices * c,
                         along.flat * c};
  along = TaskDim{};
  return space;
}

inline void set_lanes(const TaskSpace& space, Task& task) {
  task.first = task.at[kLaneDim] * space.chunk;
  task.n = std::min(space.chunk, space.lanes - task.first);
}

[[gnu::noinline]] inline Task task_at(const TaskSpace& space, int64_t index) {
  Task task;
  for (int d = kTaskRank - 1; d >= 0; --d) {
    task.at[d] = index % space.dim[d].size;
    index /= space.dim[d].size;
    task.move(space.dim[d], task.at[d]);
  }
  set_lanes(space, task);
  return task;
}

inline void next_task(const TaskSpace& space, Task& task) {
  for (int d = kTaskRank - 1; d >= 0; --d) {
    task.move(space.dim[d], 1);
    if (++task.at[d] < space.dim[d].size) break;
    task.move(space.dim[d], -space.dim[d].size);
    task.at[d] = 0;
  }
  set_lanes(space, task);
}

using tuning::pool::kUnwatched;

/// Calls body(task, index) for tasks [begin, end).
template <class Body>
void for_tasks(const TaskSpace& space, int64_t begin, int64_t end, const Body& body) {
  if (begin >= end) return;
  Task task = task_at(space, begin);
  for (int64_t i = begin;;) {
    body(task, i);
    if (++i == end) return;
    if (i % kUnwatched == 0) checkpoint();
    next_task(space, task);
  }
}

/// The real taps of one window: a box of count[0] x count[1] x count[2] taps whose first one stands
/// at `x` and `flat` relative to the plane.
struct Box {
  int64_t count[3], x_step[3], flat_step[3];
  int64_t x = 0, flat = 0;
  int64_t taps = 1;
  double inside = 1;  // can exceed 64 bits

  int64_t x_at(int64_t a, int64_t b, int64_t c) const {
    return x + a * x_step[0] + b * x_step[1] + c * x_step[2];
  }
};

/// The window at output coordinates o along the first `axes` axes; the others are left out.
inline Box box_at(const PoolPlan& p, const int64_t* o, int axes) {
  Box box;
  for (int i = 0; i < 3; ++i) {
    const PoolAxis& a = p.axis[i];
    const Taps t = i < axes ? taps_at(a, o[i]) : Taps{0, 1, 1};
    box.count[i] = t.real();
    box.taps *= t.real();
    box.inside *= double(t.inside);
    box.x_step[i] = a.dilation * p.x.space[i];
    box.flat_step[i] = a.dilation * p.flat.space[i];
    if (i >= axes || t.real() == 0) continue;
    const int64_t begin = o[i] * a.stride - a.start + t.first * a.dilation;
    box.x += begin * p.x.space[i];
    box.flat += begin * p.flat.space[i];
  }
  return box;
}

inline Box box_of(const PoolPlan& p, const Task& task, int axes) {
  return box_at(p, task.at + kSpaceDim, axes);
}

/// Runs through a box in visiting order from tap number f on; offset() belongs to the current tap.
class TapCursor {
 public:
  TapCursor(const Box& box, int64_t f) : box_(box), offset_(box.x) {
    if (f == 0) return;  // the usual case, without divisions
    c_ = f % box.count[2];
    b_ = f / box.count[2] % box.count[1];
    a_ = f / box.count[2] / box.count[1];
    offset_ = box.x_at(a_, b_, c_);
  }
  int64_t offset() const { return offset_; }
  int64_t left_in_row() const { return box_.count[2] - c_; }
  /// Moves on by n taps, at most to the end of the row.
  HD void advance(int64_t n) {
    offset_ += n * box_.x_step[2];
    if ((c_ += n) < box_.count[2]) return;
    c_ = 0;
    if (++b_ == box_.count[1]) {
      b_ = 0;
      ++a_;
    }
    offset_ = box_.x_at(a_, b_, 0);
  }

 private:
  const Box& box_;
  int64_t a_ = 0, b_ = 0, c_ = 0, offset_;
};

/// Taps of the largest window; no window has more real ones.
inline int64_t most_taps(const PoolPlan& p, int axes) {
  int64_t n = 1;
  for (int i = 0; i < axes; ++i) n *= std::min(p.axis[i].window, p.axis[i].in);
  return n;
}

/// The axis is one element, which its one window sees.
inline bool is_one_tap(const PoolAxis& a) {
  return a.in == 1 && a.out == 1 && a.window == 1 && a.start == 0;
}

/// One window covers each plane, which is one row.
inline bool is_whole_row(const PoolPlan& p) {
  const PoolAxis& w = p.axis[2];
  return is_one_tap(p.axis[0]) && is_one_tap(p.axis[1]) && w.out == 1 && w.window == w.in &&
         w.start == 0 && w.end == 0 && w.dilation == 1;
}

/// One element behind the last of a tensor that begins at `first`.
template <class T>
inline const T* end_of(const PoolPlan& p, const T* first, const PoolStrides& step,
                       int64_t PoolOuter::* outer, int64_t PoolAxis::* size) {
  int64_t last = 0;
  for (int i = 0; i < p.outer_rank; ++i) last += (p.outer[i].size - 1) * p.outer[i].*outer;
  for (int i = 0; i < 2; ++i) last += (p.batch[i] - 1) * step.batch[i];
  for (int i = 0; i < 3; ++i) last += (p.axis[i].*size - 1) * step.space[i];
  return first + last + 1;
}

/// Bytes that the windows read in all, which tells whether threads pay.
[[gnu::noinline]] inline int64_t work_bytes(const PoolPlan& p) {
  const double taps = double(p.outputs()) * double(most_taps(p, 3));
  return int64_t(
      std::min(1e18, std::max(taps * double(size_of(p.dtype)), double(p.compulsory_bytes()))));
}

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
