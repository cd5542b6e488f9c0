// What gradients of windows of three rows and columns, two apart, share: the plans, and how rows of
// the result reach memory.
#pragma once

#include <memory>

#include "cpu/memory/line_stream.h"
#include "cpu/memory/tuning.h"
#include "cpu/pool_grad/covers.h"
#include "cpu/pool_grad/neighbours.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

/// Rows of a plane in cells of two elements, each with the window that begins in it or, with a pad,
/// whose middle it begins with.
struct ThirdRows {
  static constexpr int64_t kMostColumns = tuning::pool_grad::kMostColumns,
                           kStagedBytes = tuning::pool_grad::kStagedBytes,
                           kElements = tuning::pool_grad::kRowElements;

  int64_t columns, height;  // of a row; rows of a task
  int64_t start;            // pad in front of a row, 0 or 1
  int64_t cells, windows;   // of a row; windows that have an element
  int64_t staged;           // rows that go to memory together
  bool is_streamed;

  /// Packed planes of the result; tensors beside are the caller's.
  static bool fits(const PoolGradPlan& plan) {
    const PoolPlan& f = plan.forward;
    const PoolAxis &z = f.axis[0], &y = f.axis[1], &x = f.axis[2];
    const auto suits = [](const PoolAxis& a) {
      return a.window == 3 && a.stride == 2 && a.dilation == 1 && a.start <= 1;
    };
    return z.in * z.out * z.window == 1 && z.start == 0 && suits(y) && suits(x) &&
           y.in <= kMostColumns && plan.result.space[2] == 1 && plan.result.space[1] == x.in &&
           x.in <= kMostColumns && x.out > 1;
  }

  ThirdRows(const PoolGradPlan& plan, int64_t item) {
    const PoolPlan& f = plan.forward;
    const PoolAxis &y = f.axis[1], &x = f.axis[2];
    columns = x.in;
    height = even_part(y.in, std::max<int64_t>(1, kElements / columns));
    start = x.start;
    cells = (columns + 1) / 2;
    windows = std::min(x.out, (columns - 1 + start) / 2 + 1);
    staged = std::max<int64_t>(1, kStagedBytes / (columns * item));
    is_streamed = cudml::cpu::is_streamed(f.batch[0] * f.batch[1] * y.in * columns * item);
  }

  TaskSpace tasks(const PoolGradPlan& plan) const {
    TaskSpace space = plane_tasks(plan, false, 1);
    space.dim[kSpaceDim + 1].size = (plan.forward.axis[1].in + height - 1) / height;
    return space;
  }

  /// Calls fill(y, to) for the task's rows, which may write two vectors more than a row.
  template <class T, class Room, class Fill>
  void put(const Task& task, T* result, Room& room, int64_t rows_in_all, const Fill& fill) const {
    const int64_t first = task.space(1) * height, last = std::min(first + height, rows_in_all);
    for (int64_t y = first, n; y < last; y += n) {
      n = std::min(staged, last - y);
      for (int64_t i = 0; i < n; ++i) fill(y + i, room.rows + i * columns);
      T* const dst = result + task.x + y * columns;
      const int64_t bytes = n * columns * int64_t(sizeof(T));
      if (!is_streamed) {
        copy_bytes(dst, room.rows, bytes);
        continue;
      }
      room.out.seek(dst);
      room.out.copy(room.rows, bytes);
    }
  }
};

/// covers_of() for windows of three, two apart, that begin at most one element before the first.
inline Covers covers_by_twos(const PoolAxis& a, int64_t i) {
  const int64_t at = (i + a.start) / 2, before = 1 - (i + a.start) % 2;
  return {std::max<int64_t>(0, at - before), std::min(a.out - 1, at), 1};
}

/// Rows on their way to memory.
template <class T>
struct ThirdRoom {
  std::unique_ptr<T[]> memory;
  T* rows;
  LineStream out;

  explicit ThirdRoom(const ThirdRows& r)
      : memory(new T[size_t(r.staged * r.columns + 4 * kLanes<float> + 64)]()),
        rows(memory.get() + bytes_to_line(memory.get()) / int64_t(sizeof(T))) {}
};

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
