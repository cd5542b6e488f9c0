// Max unpooling by planes that lie side by side: an element of each at once.
#pragma once

#include "cpu/memory/tuning.h"
#include "cpu/unpool/planes.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

template <class T, class Index>
class UnpoolSideBySide : UnpoolByPlanes<T, Index> {
  using Base = UnpoolByPlanes<T, Index>;
  using Base::plan_, Base::x_, Base::indices_, Base::y_;
  static constexpr int64_t kMostLanes = tuning::unpool::kMostLanes, kFewestLanes = 2;

 public:
  using Base::Base;

  static bool fits(const UnpoolPlan& plan) {
    const UnpoolBatch& lanes = plan.batch[1];
    return lanes.size >= kFewestLanes && lanes.x == 1 && lanes.indices == 1 && lanes.y == 1 &&
           plan.target[0].size == 1 && plan.target[1].size == 1;
  }

  void run() const {
    TaskSpace space = this->batch_tasks();
    TaskDim& along = space.dim[kBatchDim + 1];
    space.lanes = along.size;
    const int64_t c = space.chunk = std::min(kMostLanes, space.lanes);
    space.dim[kLaneDim] = {(space.lanes + c - 1) / c, c, c, c, along.flat * c};
    along = TaskDim{};
    Base::run(space, [&](const Task& task) { return unpool(task); });
  }

 private:
  bool unpool(const Task& task) const {
    T* const y = y_ + task.y;
    Pace pace;
    clear(task, y, pace);
    const UnpoolSource* const s = plan_.source;
    bool is_any_astray = false;
    for (int64_t a = 0; a < s[0].size; ++a)
      for (int64_t b = 0; b < s[1].size; ++b)
        for (int64_t c = 0; c < s[2].size; ++c, pace.add(task.n))
          is_any_astray |= scatter(
              task, x_ + task.x + a * s[0].x + b * s[1].x + c * s[2].x,
              indices_ + task.indices + a * s[0].indices + b * s[1].indices + c * s[2].indices, y);
    return is_any_astray;
  }

  /// Zeros in all of a task's lanes, many at once where these are all that stands there.
  void clear(const Task& task, T* y, Pace& pace) const {
    const UnpoolTarget& along = plan_.target[2];
    const int64_t most = along.y == task.n ? tuning::unpool::kUnwatched / task.n : 1;
    for (int64_t t = 0, n; t < along.size; t += n, pace.add(n * task.n)) {
      n = std::min(most, along.size - t);
      std::memset(y + t * along.y, 0, size_t(n * task.n) * sizeof(T));
    }
  }

  bool scatter(const Task& task, const T* x, const Index* from, T* y) const {
    const uint64_t size = uint64_t(plan_.plane_targets());
    const int64_t step = plan_.target[2].y;
    bool is_any_astray = false;
    for (int64_t i = 0; i < task.n; ++i) {
      const uint64_t flat = uint64_t(int64_t(from[i])), at = flat - uint64_t(task.flat) - i * size;
      if (at < size && flat < plan_.limit)
        y[int64_t(at) * step + i] = x[i];
      else
        is_any_astray |= this->is_astray(flat);
    }
    return is_any_astray;
  }
};

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
