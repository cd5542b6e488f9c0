// Max unpooling by planes that lie side by side: an element of each at once.
#pragma once

#include "cpu/memory/tuning.h"
#include "cpu/unpool/planes.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

template <class T, class Index>
class UnpoolSideBySide : protected UnpoolByPlanes<T, Index> {
  using Base = UnpoolByPlanes<T, Index>;
  static constexpr int64_t kFewestLanes = 2;

 public:
  using Base::Base;

  static bool fits(const UnpoolPlan& plan) {
    const UnpoolBatch& lanes = plan.batch[1];
    return lanes.size >= kFewestLanes && lanes.x == 1 && lanes.indices == 1 && lanes.y == 1 &&
           plan.target[0].size == 1 && plan.target[1].size == 1;
  }

  void run() const {
    Base::run(tasks(kMostLanes), [&](const Task& task) { return unpool(task); });
  }

 protected:
  using Base::plan_, Base::x_, Base::indices_, Base::y_;
  using Number = std::make_unsigned_t<Index>;
  static constexpr int64_t kMostLanes = tuning::unpool::kMostLanes;

  /// Neighbouring sources of all of a task's lanes.
  struct Group {
    const T* x;
    const Index* from;
    int64_t count;  // of each lane
  };

  /// A task's lanes: the first index of each one's plane, and how many of its targets all of their
  /// indices can name.
  struct Lanes {
    int64_t n;
    uint64_t inside;
    Number first[kMostLanes];

    Lanes(const Task& task, const UnpoolPlan& plan) : n(task.n) {
      const uint64_t size = uint64_t(plan.plane_targets());
      for (int64_t i = 0; i < n; ++i) first[i] = Number(uint64_t(task.flat) + uint64_t(i) * size);
      inside = within<Index>(uint64_t(task.flat) + uint64_t(n - 1) * size, size, plan.limit);
    }
  };

  /// Tasks of so many planes at most.
  TaskSpace tasks(int64_t lanes) const {
    TaskSpace space = this->batch_tasks();
    TaskDim& along = space.dim[kBatchDim + 1];
    space.lanes = along.size;
    const int64_t c = space.chunk = even_part(space.lanes, lanes);
    space.dim[kLaneDim] = {(space.lanes + c - 1) / c, c, c, c, along.flat * c};
    along = TaskDim{};
    return space;
  }

 private:
  bool unpool(const Task& task) const {
    const Lanes lanes(task, plan_);
    const UnpoolTarget& along = plan_.target[2];
    T* const y = y_ + task.y;
    Zeros<T> zeros(y, along.y, task.n, along.size);
    const UnpoolSource* const s = plan_.source;
    bool is_any_astray = false;
    Pace pace;
    for (int64_t a = 0; a < s[0].size; ++a)
      for (int64_t b = 0; b < s[1].size; ++b) {
        const T* x = x_ + task.x + a * s[0].x + b * s[1].x;
        const Index* from = indices_ + task.indices + a * s[0].indices + b * s[1].indices;
        for (int64_t c = 0; c < s[2].size; ++c, pace.add(task.n)) {
          if (!put(lanes, x, from, y, zeros)) is_any_astray |= put_each(task, x, from, y, zeros);
          x += s[2].x;
          from += s[2].indices;
        }
      }
    zeros.finish();
    return is_any_astray;
  }

  /// A source of each lane; false, and nothing is done, where not all lead into their planes.
  bool put(const Lanes& lanes, const T* x, const Index* from, T* y, Zeros<T>& zeros) const {
    const int64_t n = lanes.n, step = plan_.target[2].y;
    Number at[kMostLanes], most = 0;
    for (int64_t i = 0; i < n; ++i) {
      at[i] = Number(from[i]) - lanes.first[i];
      most = std::max(most, at[i]);
    }
    if (most >= lanes.inside) return false;
    zeros.reach(most);
    zeros.fetch();
    for (int64_t i = 0; i < n; ++i) y[int64_t(at[i]) * step + i] = x[i];
    return true;
  }

  bool put_each(const Task& task, const T* x, const Index* from, T* y, Zeros<T>& zeros) const {
    const uint64_t size = uint64_t(plan_.plane_targets());
    const int64_t step = plan_.target[2].y;
    bool is_any_astray = false;
    for (int64_t i = 0; i < task.n; ++i) {
      const uint64_t flat = uint64_t(int64_t(from[i])),
                     at = flat - uint64_t(task.flat) - uint64_t(i) * size;
      if (at < size && flat < plan_.limit) {
        zeros.reach(at);
        y[int64_t(at) * step + i] = x[i];
      } else {
        is_any_astray |= this->is_astray(flat);
      }
    }
    return is_any_astray;
  }
};

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
