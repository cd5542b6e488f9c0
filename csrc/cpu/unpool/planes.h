// Max unpooling by planes: as pooling gives indices, those of a plane stay in it.
#pragma once

#include <atomic>

#include "cpu/pool/walk.h"
#include "cpu/unpool/plain.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

/// What both ways by planes share. Where an index leads to another plane, UnpoolPlain does all of
/// it once more.
template <class T, class Index>
class UnpoolByPlanes {
 public:
  UnpoolByPlanes(const UnpoolPlan& plan, const Arrays& a)
      : plan_(plan),
        arrays_(a),
        x_(static_cast<const T*>(a.inputs[0])),
        indices_(static_cast<const Index*>(a.inputs[1])),
        y_(static_cast<T*>(a.outputs[0])) {}

 protected:
  /// Tasks over batch dimensions: x, indices and y of a task are offsets there, flat the first
  /// index of its plane.
  TaskSpace batch_tasks() const {
    TaskSpace space;
    const int64_t size = plan_.plane_targets();
    for (int i = 0; i < 2; ++i) {
      const UnpoolBatch& b = plan_.batch[i];
      space.dim[kBatchDim + i] = {b.size, b.x, b.y, b.indices,
                                  i == 0 ? size * plan_.batch[1].size : size};
    }
    return space;
  }

  /// How many indices from `first` on belong to its plane and are in range.
  uint64_t indices_from(int64_t first) const {
    const uint64_t begin = uint64_t(first), size = uint64_t(plan_.plane_targets());
    return begin < plan_.limit ? std::min(size, plan_.limit - begin) : 0;
  }

  /// Whether the index, which is none of its own plane's, is another's.
  bool is_astray(uint64_t flat) const { return flat < plan_.limit; }

  template <class Body>
  void run(const TaskSpace& space, const Body& body) const {
    std::atomic<bool> is_any_astray{false};
    parallel_for(space.count(), plan_.compulsory_bytes(), [&](int64_t begin, int64_t end) {
      for_tasks(space, begin, end, [&](const Task& task, int64_t) {
        if (body(task)) is_any_astray.store(true, std::memory_order_relaxed);
      });
    });
    if (is_any_astray.load(std::memory_order_relaxed)) UnpoolPlain<T, Index>(plan_, arrays_).run();
  }

  const UnpoolPlan& plan_;
  const Arrays& arrays_;
  const T* x_;
  const Index* indices_;
  T* y_;
};

/// A plane after the other, packed in the result.
template <class T, class Index>
class UnpoolPlanes : UnpoolByPlanes<T, Index> {
  using Base = UnpoolByPlanes<T, Index>;
  using Base::plan_, Base::x_, Base::indices_, Base::y_;

 public:
  using Base::Base;

  static bool fits(const UnpoolPlan& plan) {
    const UnpoolTarget& row = plan.target[2];
    return plan.target[0].size == 1 && plan.target[1].size == 1 && (row.size == 1 || row.y == 1);
  }

  void run() const {
    Base::run(this->batch_tasks(), [&](const Task& task) { return unpool(task); });
  }

 private:
  bool unpool(const Task& task) const {
    T* const y = y_ + task.y;
    std::memset(y, 0, size_t(plan_.plane_targets()) * sizeof(T));
    const uint64_t first = uint64_t(task.flat), inside = this->indices_from(task.flat);
    const UnpoolSource* const s = plan_.source;
    bool is_any_astray = false;
    Pace pace;
    for (int64_t a = 0; a < s[0].size; ++a)
      for (int64_t b = 0; b < s[1].size; ++b) {
        const T* const x = x_ + task.x + a * s[0].x + b * s[1].x;
        const Index* const from = indices_ + task.indices + a * s[0].indices + b * s[1].indices;
        for (int64_t c = 0; c < s[2].size; ++c) {
          const uint64_t flat = uint64_t(int64_t(from[c * s[2].indices]));
          if (flat - first < inside)
            y[flat - first] = x[c * s[2].x];
          else
            is_any_astray |= this->is_astray(flat);
        }
        pace.add(s[2].size);
      }
    return is_any_astray;
  }
};

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
