// Gradient of Lp pooling for planes that lie side by side: an element of each at once.
#pragma once

#include <algorithm>

#include "cpu/memory/tuning.h"
#include "cpu/pool_grad/lp_vectors.h"
#include "cpu/simd/convert.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

template <class T>
class LpSideBySide : LpArrays<T> {
  using Base = LpArrays<T>;
  using Base::f, Base::grad, Base::plan, Base::result, Base::x;
  using V = Acc<T>;
  static constexpr int64_t kStep = kLanes<V>, kMostLanes = tuning::pool_grad::kLanesAtOnce;

 public:
  explicit LpSideBySide(const Base& base) : Base(base) {}

  static bool fits(const PoolGradPlan& plan) {
    const PoolPlan& f = plan.forward;
    return has_lanes(plan) && f.x.batch[1] == 1 && f.y.batch[1] == 1 && f.indices.batch[1] == 1;
  }

  void run() const {
    TaskSpace space = plane_tasks(plan, true, kMostLanes);
    for (int i = 0; i < 3; ++i)
      space.dim[kSpaceDim + i] = {f.axis[i].in, plan.result.space[i], 0, 0, f.x.space[i]};
    parallel_for(space.count(), plan.compulsory_bytes(), [&](int64_t begin, int64_t end) {
      for_tasks(space, begin, end, [&](const Task& task, int64_t) { join(task); });
    });
  }

 private:
  /// Windows in their order, each for all lanes.
  void join(const Task& task) const {
    alignas(64) V sums[kMostLanes];
    std::fill_n(sums, (task.n + kStep - 1) / kStep * kStep, V{0});
    const Covers slices = covers_of(f.axis[0], task.space(0));
    const Covers rows = covers_of(f.axis[1], task.space(1));
    const Covers columns = covers_of(f.axis[2], task.space(2));
    Pace pace;
    for (int64_t a = slices.first; a <= slices.last; a += slices.step)
      for (int64_t b = rows.first; b <= rows.last; b += rows.step)
        for (int64_t c = columns.first; c <= columns.last; c += columns.step, pace.add(task.n)) {
          const auto at = [&](const PoolStrides& s) {
            return a * s.space[0] + b * s.space[1] + c * s.space[2];
          };
          add(x + task.flat, task.indices + at(f.indices), grad + task.y + at(f.y), task.n, sums);
        }
    store_grads<T>(result + task.x, 1, sums, task.n);
  }

  void add(const T* taps, int64_t norms, const T* grads, int64_t n, V* sums) const {
    const auto add_share = [&](int64_t i, const auto& load) {
      const auto share =
          lp_share<Vector<V>>(load(taps + i), norms_at(norms + i, load), load(grads + i), f.p);
      store_vector(sums + i, load_vector<Vector<V>>(sums + i) + share);
    };
    int64_t i = 0;
    for (; i + kStep <= n; i += kStep) add_share(i, [](auto p) { return load_floats(p); });
    if constexpr (std::is_same_v<V, float>) {
      const Partial rest{n - i};
      if (i < n) add_share(i, [&](auto p) { return load_wide(p, rest); });
    }
    for (; std::is_same_v<V, double> && i < n; ++i)
      sums[i] += lp_share<V>(load_as_acc(taps[i]), f.p == 1 ? V{1} : this->norm(norms + i),
                             load_as_acc(grads[i]), f.p);
  }

  template <class Load>
  Vector<V> norms_at(int64_t offset, const Load& load) const {
    if (f.p == 1) return all_lanes(V{1});
    if (this->are_norms_wide) return load(static_cast<const V*>(this->norms) + offset);
    return load(static_cast<const T*>(this->norms) + offset);
  }
};

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
