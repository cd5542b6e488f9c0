// Gradient of Lp pooling for planes that one window covers each, a plane after the other.
#pragma once

#include "cpu/memory/tuning.h"
#include "cpu/pool_grad/lp_vectors.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

template <class T>
class LpPlanes : LpArrays<T> {
  using Base = LpArrays<T>;
  using Base::f, Base::grad, Base::plan, Base::result, Base::x;

 public:
  explicit LpPlanes(const Base& base) : Base(base) {}

  static bool fits(const PoolGradPlan& plan) {
    const PoolPlan& f = plan.forward;
    for (int i = 0; i < 3; ++i) {
      const PoolAxis& a = f.axis[i];
      if (a.out != 1 || taps_at(a, 0).real() != a.in || (i < 2 && a.in != 1)) return false;
    }
    return f.x.space[2] == 1 && plan.result.space[2] == 1;
  }

  /// Long planes are cut into pieces, each with the window's norm and gradient.
  void run() const {
    TaskSpace space = plane_tasks(plan, false, 1);
    space.lanes = f.axis[2].in;
    space.chunk = std::min<int64_t>(kPiece, space.lanes);
    const int64_t c = space.chunk;
    space.dim[kLaneDim] = {(space.lanes + c - 1) / c, c, 0, 0, c};
    parallel_for(space.count(), plan.compulsory_bytes(), [&](int64_t begin, int64_t end) {
      for_tasks(space, begin, end, [&](const Task& task, int64_t) {
        const Acc<T> norm = f.p == 1 ? Acc<T>{1} : this->norm(task.indices);
        share_window(x + task.flat, norm, load_as_acc(grad[task.y]), f.p, result + task.x, task.n);
      });
    });
  }

 private:
  static constexpr int64_t kPiece = tuning::pool_grad::kPieceElements;
};

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
