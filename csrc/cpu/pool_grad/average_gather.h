// Gradient of average pooling, a row of elements after the other; takes any plan.
#pragma once

#include "cpu/isa/paths.h"
#include "cpu/memory/tuning.h"
#include "cpu/pool_grad/covers.h"
#include "cpu/threads/arena.h"
#include "cpu/threads/parallel.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

constexpr int64_t kColumns = tuning::pool_grad::kGatherColumns;
constexpr int64_t kPhases = tuning::pool_grad::kMostPhases;

/// Elements that are computed with as numbers of type A: all types of them share the loops.
template <class A>
struct AverageElements {
  int64_t size;
  void (*load)(A* dst, const void* src, int64_t step, int64_t n);
  void (*store)(void* dst, int64_t step, const A* src, int64_t n);
};

template <class T>
AverageElements<Acc<T>> average_elements() {
  using A = Acc<T>;
  return {int64_t(sizeof(T)),
          [](A* dst, const void* src, int64_t step, int64_t n) {
            load_grads<T>(dst, static_cast<const T*>(src), step, n);
          },
          [](void* dst, int64_t step, const A* src, int64_t n) {
            store_grads<T>(static_cast<T*>(dst), step, src, n);
          }};
}

/// A row of the result: joins the rows of the incoming gradient that cover it, each divided by its
/// windows' divisors, then spreads every joined value over its window's columns. Takes any plan.
template <class A, class Sum>
class RowGather {
 public:
  RowGather(const AverageElements<A>& elements, const PoolGradPlan& plan, const Arrays& a)
      : plan_(plan),
        f_(plan.forward),
        elements_(elements),
        grad_(static_cast<const char*>(a.inputs[1])),
        result_(static_cast<char*>(a.outputs[0])) {}

  void run() const {
    const TaskSpace space = tasks();
    parallel_for(space.count(), plan_.compulsory_bytes(), [&](int64_t begin, int64_t end) {
      for_tasks(space, begin, end, [&](const Task& task, int64_t) { gather(task); });
    });
  }

 private:
  TaskSpace tasks() const {
    TaskSpace space = plane_tasks(plan_, false, 1);
    for (int i = 0; i < 2; ++i)
      space.dim[kSpaceDim + i] = {f_.axis[i].in, plan_.result.space[i], 0, 0, 0};
    const int64_t columns = f_.axis[2].in, step = plan_.result.space[2];
    space.lanes = columns;
    space.chunk = std::min(kColumns, columns);
    space.dim[kLaneDim] = {(columns + space.chunk - 1) / space.chunk, step * space.chunk, 0, 0, 0};
    return space;
  }

  void gather(const Task& task) const {
    const Room<Elements<Sum, kColumns>> sum_room, line_room, count_room;
    Sum *const sums = sum_room->at, *const line = line_room->at, *const counts = count_room->at;
    const Room<Phases> phase_room(f_.axis[2], task);
    Phases& phases = *phase_room;
    for (int64_t i = 0; i < task.n; ++i) sums[i] = 0;
    const Reach reach = reach_of(f_.axis[2], task.first, task.first + task.n - 1);
    Pace pace;
    for (int64_t o = reach.first; o <= reach.last; o += kColumns) {
      const int64_t n = std::min(kColumns, reach.last - o + 1);
      pace.add(kPhases * n);
      count_columns(o, n, counts);
      join(task, o, n, counts, line, pace);
      if (phases.count > 0)
        phases.add(f_.axis[2], o, n, line);
      else
        for (int64_t i = 0; i < n; ++i) spread_window(task, o + i, line[i], sums);
    }
    phases.merge(task, sums);
    store(result_ + task.x * elements_.size, sums, task.n);
  }

  void count_columns(int64_t o, int64_t n, Sum* counts) const {
    const PoolAxis& w = f_.axis[2];
    const int64_t last = w.in - 1 - (w.window - 1) * w.dilation + w.start;
    const int64_t from = std::clamp<int64_t>((w.start + w.stride - 1) / w.stride - o, 0, n);
    const int64_t to = last < 0 ? from : std::clamp(last / w.stride + 1 - o, from, n);
    for (int64_t i = 0; i < from; ++i) counts[i] = Sum(counted_at(f_, 2, o + i));
    for (int64_t i = from; i < to; ++i) counts[i] = Sum(w.window);
    for (int64_t i = to; i < n; ++i) counts[i] = Sum(counted_at(f_, 2, o + i));
  }

  void join(const Task& task, int64_t o, int64_t n, const Sum* counts, Sum* line,
            Pace& pace) const {
    for (int64_t i = 0; i < n; ++i) line[i] = 0;
    const Covers above = covers_of(f_.axis[0], task.space(0));
    const Covers rows = covers_of(f_.axis[1], task.space(1));
    for (int64_t a = above.first; a <= above.last; a += above.step)
      for (int64_t b = rows.first; b <= rows.last; b += rows.step) {
        const Sum count = Sum(counted_at(f_, 0, a) * counted_at(f_, 1, b));
        const int64_t at = a * f_.y.space[0] + b * f_.y.space[1] + o * f_.y.space[2];
        add_row(grad_ + (task.y + at) * elements_.size, count, counts, n, line);
        pace.add(n);
      }
  }

  void add_row(const void* src, Sum count, const Sum* __restrict counts, int64_t n,
               Sum* __restrict line) const {
    const Room<Elements<A, kColumns>> room;
    const bool is_there = elements_.size == sizeof(A) && f_.y.space[2] == 1;
    const A* const row = is_there ? static_cast<const A*>(src) : room->at;
    if (!is_there) elements_.load(room->at, src, f_.y.space[2], n);
    for (int64_t i = 0; i < n; ++i) {
      const Sum divisor = count * counts[i];  // 0 where a window sees nothing
      line[i] += divisor == 0 ? Sum{0} : Sum(row[i]) / divisor;
    }
  }

  void store(void* dst, const Sum* sums, int64_t n) const {
    if constexpr (std::is_same_v<Sum, A>) {
      elements_.store(dst, plan_.result.space[2], sums, n);
    } else {
      const Room<Elements<A, kColumns>> room;
      for (int64_t i = 0; i < n; ++i) room->at[i] = A(sums[i]);
      elements_.store(dst, plan_.result.space[2], room->at, n);
    }
  }

  /// Columns by their place modulo the step of the window: along each phase, one tap shifts the
  /// joined row by whole elements. One window alone is spread over its columns at once.
  struct Phases {
    int64_t count = 0, first, length, offset;
    Sum sum[kColumns + 2 * kPhases];

    Phases(const PoolAxis& w, const Task& task) {
      if (w.out == 1 || w.stride > kPhases || w.window > 64) return;
      count = w.stride;
      offset = task.first + w.start;
      first = offset / count;
      length = (offset + task.n - 1) / count - first + 1;
      for (int64_t i = 0; i < count * length; ++i) sum[i] = 0;
    }

    /// Backwards through the taps, so that every element adds up its windows in ascending order.
    void add(const PoolAxis& w, int64_t o, int64_t n, const Sum* __restrict line) {
      for (int64_t k = w.window - 1; k >= 0; --k) {
        const int64_t at = k * w.dilation, begin = o + at / count - first;
        Sum* phase = sum + at % count * length;
        const int64_t from = std::max<int64_t>(0, -begin), to = std::min(n, length - begin);
        for (int64_t i = from; i < to; ++i) phase[begin + i] += line[i];
      }
    }

    void merge(const Task& task, Sum* __restrict sums) const {
      if (count == 0) return;
      const auto from = [&](int64_t i) {
        return sum + (offset + i) % count * length + (offset + i) / count - first;
      };
      int64_t i = 0;
      if (count == 2) {
        if (offset % 2 != 0) sums[i] = *from(i), ++i;
        const Sum* even = sum + (offset + i) / 2 - first;
        const Sum* odd = even + length;
        const int64_t pairs = (task.n - i) / 2;
        for (int64_t j = 0; j < pairs; ++j) {
          sums[i + 2 * j] = even[j];
          sums[i + 2 * j + 1] = odd[j];
        }
        i += 2 * pairs;
      }
      // Phase by phase, as a division for each element takes longer than all else.
      for (const int64_t end = std::min(task.n, i + count); i < end; ++i) {
        const Sum* next = from(i);
        for (int64_t j = i; j < task.n; j += count) sums[j] = *next++;
      }
    }
  };

  void spread_window(const Task& task, int64_t o, Sum value, Sum* sums) const {
    const PoolAxis& w = f_.axis[2];
    const int64_t begin = o * w.stride - w.start - task.first, d = w.dilation;
    const int64_t from = begin >= 0 ? 0 : (-begin + d - 1) / d;
    const int64_t to = begin >= task.n ? 0 : std::min(w.window, (task.n - 1 - begin) / d + 1);
    for (int64_t k = from; k < to; ++k) sums[begin + k * d] += value;
  }

  const PoolGradPlan& plan_;
  const PoolPlan& f_;
  const AverageElements<A> elements_;
  const char* const grad_;
  char* const result_;
};

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
