// Gradient of max pooling by the winners of all windows, found first: each plane, or part of one,
// is summed by one thread from the last of its windows to the first, as planes side by side are.
// Sums are the result's own elements where they may be rounded as often as they are added to.
#pragma once

#include <bit>
#include <cstring>

#include "cpu/memory/tuning.h"
#include "cpu/pool_grad/covers.h"
#include "cpu/threads/arena.h"
#include "cpu/threads/parallel.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

using tuning::pool_grad::kDirectBytes;
using tuning::pool_grad::kDirectLanes;
using tuning::pool_grad::kScatterLanes;
using tuning::pool_grad::kScatterSums;
using tuning::pool_grad::kScatterWindows;

/// How a plane of x is cut into ranges of neighbouring elements: a unit of the plane (all of it,
/// one slice, one row) holds `per_unit` ranges of `length` elements, the last one shorter.
struct Ranges {
  int64_t unit, length, per_unit, count;
};

Ranges cut_plane(const PoolPlan& f, int64_t room) {
  const int64_t row = f.axis[2].in, slice = row * f.axis[1].in, plane = slice * f.axis[0].in;
  Ranges r{plane, plane, 1, 1};
  if (plane > room) {
    r.unit = slice <= room ? plane : row <= room ? slice : row;
    r.length = slice <= room ? room / slice * slice : row <= room ? room / row * row : room;
  }
  r.per_unit = (r.unit + r.length - 1) / r.length;
  r.count = plane / r.unit * r.per_unit;
  return r;
}

/// Elements of a packed plane, `step` apart, or lanes of them, that gradients are added to.
template <class T>
struct PlaneSums {
  T* at;
  int64_t step;

  void add(int64_t element, int64_t lane, T grad) const {
    T& sum = at[element * step + lane];
    if constexpr (std::is_same_v<T, Acc<T>>) {
      sum += grad;
    } else {  // the only one: added to 0 it keeps its bits, unless it is -0
      const auto bits = std::bit_cast<uint16_t>(grad);
      sum = std::bit_cast<T>(bits == 0x8000 ? uint16_t{0} : bits);
    }
  }
};

/// Sums of another type.
template <class T, class Sum>
struct WideSums {
  Sum* at;
  int64_t step;

  void add(int64_t element, int64_t lane, T grad) const {
    at[element * step + lane] += Sum(load_as_acc(grad));
  }
};

template <class T, class Sum, class Index>
class MaxScatter {
 public:
  MaxScatter(const PoolGradPlan& plan, const void* grad, void* result, const void* winners)
      : plan_(plan),
        f_(plan.forward),
        lanes_(are_side_by_side(plan)),
        step_(even_step(plan)),
        is_direct_(std::is_same_v<Sum, Acc<T>> && step_ != 0 &&
                   (std::is_same_v<T, Sum> || most_covers(plan.forward) == 1)),
        space_(plane_tasks(plan, lanes_, is_direct_ ? kDirectLanes : kScatterLanes)),
        ranges_(cut_plane(plan.forward, room_of_range())),
        grad_(static_cast<const T*>(grad)),
        result_(static_cast<T*>(result)),
        winners_(static_cast<const Index*>(winners)) {
    space_.dim[kSpaceDim].size = ranges_.count;
  }

  void run() const {
    parallel_for(space_.count(), plan_.compulsory_bytes(), [&](int64_t begin, int64_t end) {
      for_tasks(space_, begin, end, [&](const Task& task, int64_t) { scatter(task); });
    });
  }

 private:
  static bool are_side_by_side(const PoolGradPlan& plan) {
    return plan.result.batch[1] == 1 && plan.forward.batch[1] > 1 && plan.result.space[2] != 1;
  }

  /// From each element of a plane of the result to the next, or 0 where they are not equally far
  /// apart.
  static int64_t even_step(const PoolGradPlan& plan) {
    int64_t step = 0, size = 1;
    for (int i = 2; i >= 0; --i) {
      const int64_t in = plan.forward.axis[i].in, stride = plan.result.space[i];
      if (in == 1) continue;
      if (step != 0 && stride != step * size) return 0;
      if (step == 0) step = stride;
      size *= in;
    }
    return size == 1 ? 1 : step;
  }

  /// Elements of a range, of each lane.
  int64_t room_of_range() const {
    const int64_t elements = is_direct_ ? kDirectBytes / int64_t(sizeof(T)) : kScatterSums;
    return lanes_ ? std::max<int64_t>(1, elements / space_.chunk) : elements;
  }

  void scatter(const Task& task) const {
    const int64_t range = task.space(0), unit = range / ranges_.per_unit * ranges_.unit;
    const int64_t first = unit + range % ranges_.per_unit * ranges_.length;
    const int64_t length = std::min(ranges_.length, unit + ranges_.unit - first);
    const int64_t n = lanes_ ? task.n : 1;
    if (is_direct_) {
      const PlaneSums<T> sums = {result_ + task.x + first * step_, step_};
      clear(sums, length, n);
      add_windows(task, first, length, sums);
    } else {
      const Room<Elements<Sum, kScatterSums>> room;
      std::fill_n(room->at, length * n, Sum{0});
      add_windows(task, first, length, WideSums<T, Sum>{room->at, n});
      store(task, first, length, room->at);
    }
  }

  static void clear(const PlaneSums<T>& sums, int64_t length, int64_t n) {
    const bool are_packed = sums.step == n;
    for (int64_t i = 0, count = are_packed ? length : 1; i < length; i += count)
      std::memset(sums.at + i * sums.step, 0, size_t(count * n) * sizeof(T));
  }

  /// Hands elements [first, first + length) of a plane what their windows have for them.
  template <class Sums>
  void add_windows(const Task& task, int64_t first, int64_t length, const Sums& sums) const {
    const int64_t n = lanes_ ? task.n : 1;
    Pace pace;
    Reach reach[3];
    reaches(first, first + length - 1, reach);
    for (int64_t a = reach[0].last; a >= reach[0].first; --a)
      for (int64_t b = reach[1].last; b >= reach[1].first; --b) {
        const T* grad = grad_ + task.y + a * f_.y.space[0] + b * f_.y.space[1];
        const Index* winners =
            winners_ + task.indices + a * f_.indices.space[0] + b * f_.indices.space[1];
        for (int64_t c = reach[2].last; c >= reach[2].first; c -= kScatterWindows) {
          const Reach some{std::max(reach[2].first, c - kScatterWindows + 1), c};
          pace.add((c - some.first + 1) * n);
          if (lanes_)
            add_lanes(grad, winners, some, uint64_t(first), uint64_t(length), n, sums);
          else
            add_row(grad, winners, some, uint64_t(first), uint64_t(length), sums);
        }
      }
  }

  /// The windows that can have winners among elements [first, last] of the plane.
  void reaches(int64_t first, int64_t last, Reach* reach) const {
    const int64_t row = f_.axis[2].in, slice = row * f_.axis[1].in;
    const int64_t low[3] = {first / slice, first / row, first};
    const int64_t high[3] = {last / slice, last / row, last};
    for (int i = 0; i < 3; ++i) {
      const PoolAxis& a = f_.axis[i];
      const bool all = i > 0 && low[i - 1] != high[i - 1];
      reach[i] = all ? reach_of(a, 0, a.in - 1) : reach_of(a, low[i] % a.in, high[i] % a.in);
    }
  }

  template <class Sums>
  void add_row(const T* grad, const Index* winners, Reach reach, uint64_t first, uint64_t length,
               const Sums& sums) const {
    const int64_t step = f_.y.space[2], index_step = f_.indices.space[2];
    for (int64_t c = reach.last; c >= reach.first; --c) {
      const uint64_t at = uint64_t(winners[c * index_step]) - first;
      if (at < length) sums.add(int64_t(at), 0, grad[c * step]);
    }
  }

  template <class Sums>
  void add_lanes(const T* grad, const Index* winners, Reach reach, uint64_t first, uint64_t length,
                 int64_t n, const Sums& sums) const {
    for (int64_t c = reach.last; c >= reach.first; --c) {
      const T* g = grad + c * f_.y.space[2];
      const Index* w = winners + c * f_.indices.space[2];
      for (int64_t i = 0; i < n; ++i) {
        const uint64_t at = uint64_t(w[i * f_.indices.batch[1]]) - first;
        if (at < length) sums.add(int64_t(at), i, g[i * f_.y.batch[1]]);
      }
    }
  }

  void store(const Task& task, int64_t first, int64_t length, const Sum* sums) const {
    const int64_t n = lanes_ ? task.n : 1;
    T* const result = result_ + task.x;
    if (step_ == n) return store_sums<T>(result + first * n, 1, sums, length * n);
    const int64_t row = f_.axis[2].in, rows = f_.axis[1].in;
    const PoolStrides& r = plan_.result;
    for (int64_t p = first; p < first + length;) {
      const int64_t c = p % row, b = p / row % rows, a = p / row / rows;
      const int64_t run = std::min(row - c, first + length - p);
      T* dst = result + a * r.space[0] + b * r.space[1] + c * r.space[2];
      const Sum* src = sums + (p - first) * n;
      if (!lanes_) store_sums<T>(dst, r.space[2], src, run);
      for (int64_t i = 0; lanes_ && i < run; ++i)
        store_sums<T>(dst + i * r.space[2], 1, src + i * n, n);
      p += run;
    }
  }

  const PoolGradPlan& plan_;
  const PoolPlan& f_;
  bool lanes_;
  int64_t step_;
  bool is_direct_;
  TaskSpace space_;
  Ranges ranges_;
  const T* grad_;
  T* result_;
  const Index* winners_;
};

template <class T, class Sum>
void scatter_max(const PoolGradPlan& plan, const void* grad, void* result, const void* winners) {
  if (plan.forward.index_dtype == Dtype::uint32)
    MaxScatter<T, Sum, uint32_t>(plan, grad, result, winners).run();
  else
    MaxScatter<T, Sum, uint64_t>(plan, grad, result, winners).run();
}

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
