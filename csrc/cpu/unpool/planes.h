// Max unpooling by planes: as pooling gives indices, those of a plane stay in it.
#pragma once

#include <atomic>
#include <limits>

#include "cpu/pool/walk.h"
#include "cpu/unpool/plain.h"
#include "cpu/unpool/zeros.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

/// Sources that are looked at together.
constexpr int64_t kUnpooled = 16;

/// What is left of [first, first + size) in range of an Index and below `limit`, so that
/// differences to `first` may wrap round as such numbers.
template <class Index>
uint64_t within(uint64_t first, uint64_t size, uint64_t limit) {
  const uint64_t end = std::min(limit, uint64_t(std::numeric_limits<Index>::max()) + 1);
  return first < end ? std::min(size, end - first) : 0;
}

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

  /// Whether the index, which is none of its own plane's, is another's.
  bool is_astray(uint64_t flat) const { return flat < plan_.limit; }

  /// Whether body(task) is true of any task; the others may be left out then.
  template <class Body>
  bool any(const TaskSpace& space, const Body& body) const {
    std::atomic<bool> is_any{false};
    parallel_for(space.count(), plan_.compulsory_bytes(), [&](int64_t begin, int64_t end) {
      for_tasks(space, begin, end, [&](const Task& task, int64_t) {
        if (!is_any.load(std::memory_order_relaxed) && body(task))
          is_any.store(true, std::memory_order_relaxed);
      });
    });
    return is_any.load(std::memory_order_relaxed);
  }

  /// Calls body(task), which says whether an index leads to another plane.
  template <class Body>
  void run(const TaskSpace& space, const Body& body) const {
    if (any(space, body)) UnpoolPlain<T, Index>(plan_, arrays_).run();
  }

  const UnpoolPlan& plan_;
  const Arrays& arrays_;
  const T* x_;
  const Index* indices_;
  T* y_;
};

/// A plane after the other, packed in the result.
template <class T, class Index>
class UnpoolPlanes : protected UnpoolByPlanes<T, Index> {
  using Base = UnpoolByPlanes<T, Index>;

 public:
  using Base::Base;

  static bool fits(const UnpoolPlan& plan) {
    const UnpoolTarget& row = plan.target[2];
    return plan.target[0].size == 1 && plan.target[1].size == 1 && (row.size == 1 || row.y == 1);
  }

  void run() const {
    Base::run(this->batch_tasks(), [&](const Task& task) { return unpool(task); });
  }

 protected:
  using Base::plan_, Base::x_, Base::indices_, Base::y_;

 private:
  using Number = std::make_unsigned_t<Index>;
  static constexpr int64_t kPiece = tuning::unpool::kUnwatched;

  bool unpool(const Task& task) const {
    T* const y = y_ + task.y;
    Zeros<T> zeros(y, 1, 1, plan_.plane_targets());
    const UnpoolSource* const s = plan_.source;
    const uint64_t first = uint64_t(task.flat),
                   inside = within<Index>(first, uint64_t(plan_.plane_targets()), plan_.limit);
    bool is_any_astray = false;
    Pace pace;
    for (int64_t a = 0; a < s[0].size; ++a)
      for (int64_t b = 0; b < s[1].size; ++b) {
        const T* x = x_ + task.x + a * s[0].x + b * s[1].x;
        const Index* from = indices_ + task.indices + a * s[0].indices + b * s[1].indices;
        UnpoolSource part = s[2];
        for (int64_t left = s[2].size; left > 0; left -= part.size, pace.add(part.size)) {
          part.size = std::min(left, kPiece);
          is_any_astray |= part.x == 1 && part.indices == 1
                               ? scatter<true>(x, from, part, first, inside, y, zeros)
                               : scatter<false>(x, from, part, first, inside, y, zeros);
          x += part.size * part.x;
          from += part.size * part.indices;
        }
      }
    zeros.finish();
    return is_any_astray;
  }

  /// A part of a row of sources, kUnpooled at a time while all of these lead into the plane.
  template <bool kIsPacked>
  [[gnu::noinline]] bool scatter(const T* x, const Index* from, const UnpoolSource row,
                                 uint64_t first, uint64_t inside, T* y, Zeros<T>& zeros) const {
    bool is_any_astray = false;
    for (int64_t c = 0; c < row.size;) {
      const int64_t n = std::min(kUnpooled, row.size - c);
      if (kIsPacked && n == kUnpooled) {
        Number at[kUnpooled], most = 0;
        for (int64_t k = 0; k < kUnpooled; ++k) {
          at[k] = Number(from[c + k]) - Number(first);
          most = std::max(most, at[k]);
        }
        if (most < inside) {
          zeros.reach(most);
          for (int64_t k = 0; k < kUnpooled; ++k) y[at[k]] = x[c + k];
          c += kUnpooled;
          continue;
        }
      }
      for (const int64_t end = c + n; c < end; ++c) {
        const uint64_t flat = uint64_t(int64_t(from[c * row.indices]));
        if (flat - first >= inside) {
          is_any_astray |= this->is_astray(flat);
          continue;
        }
        zeros.reach(flat - first);
        y[flat - first] = x[c * row.x];
      }
    }
    return is_any_astray;
  }
};

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
