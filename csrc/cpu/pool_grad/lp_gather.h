// Gradient of Lp pooling, an element after the other; takes any plan.
#pragma once

#include "cpu/memory/tuning.h"
#include "cpu/pool_grad/covers.h"
#include "math/lp_slope.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

/// The tensors of a call. Norms, the forward output, are of type T, or of float where T has 16
/// bits.
template <class T>
struct LpArrays {
  const PoolGradPlan& plan;
  const PoolPlan& f;
  const T *x, *grad;
  const void* norms;
  bool are_norms_wide;
  T* result;

  LpArrays(const PoolGradPlan& p, const Arrays& a)
      : plan(p),
        f(p.forward),
        x(static_cast<const T*>(a.inputs[0])),
        grad(static_cast<const T*>(a.inputs[2])),
        norms(a.inputs[1]),
        are_norms_wide(p.norm_dtype == dtype_of<Acc<T>>),
        result(static_cast<T*>(a.outputs[0])) {}

  Acc<T> norm(int64_t offset) const {
    if (are_norms_wide) return static_cast<const Acc<T>*>(norms)[offset];
    return load_as_acc(static_cast<const T*>(norms)[offset]);
  }
};

/// A sum of one term after the other; a long one carries over into double now and then, so that no
/// chain of additions grows long.
template <class V, bool kIsLong>
struct LpSum {
  V run = 0;
  double carried = 0;
  int64_t terms = 0;

  void add(V term) {
    run += term;
    if (!kIsLong || ++terms % 1024 != 0) return;
    carried += double(run);
    run = 0;
  }
  V result() const { return kIsLong ? V(carried + double(run)) : run; }
};

/// Every element adds up what its windows hand to it, in their row-major order, as all paths do.
template <class T, bool kIsLong>
class LpGather : LpArrays<T> {
  using Base = LpArrays<T>;
  using Base::f, Base::grad, Base::plan, Base::result, Base::x;

 public:
  explicit LpGather(const Base& base) : Base(base) {}

  void run() const {
    TaskSpace space = plane_tasks(plan, false, 1);
    for (int i = 0; i < 2; ++i)
      space.dim[kSpaceDim + i] = {f.axis[i].in, plan.result.space[i], 0, 0, f.x.space[i]};
    space.lanes = f.axis[2].in;
    space.chunk = std::min<int64_t>(kElementsOfTask, space.lanes);
    const int64_t c = space.chunk;
    space.dim[kLaneDim] = {(space.lanes + c - 1) / c, plan.result.space[2] * c, 0, 0,
                           f.x.space[2] * c};
    parallel_for(space.count(), plan.compulsory_bytes(), [&](int64_t begin, int64_t end) {
      for_tasks(space, begin, end, [&](const Task& task, int64_t) { gather(task); });
    });
  }

 private:
  using Sum = LpSum<Acc<T>, kIsLong>;
  static constexpr int64_t kElementsOfTask = tuning::pool_grad::kGatherColumns;

  void gather(const Task& task) const {
    const Covers slices = covers_of(f.axis[0], task.space(0));
    const Covers rows = covers_of(f.axis[1], task.space(1));
    Pace pace;
    for (int64_t i = 0; i < task.n; ++i) {
      const Acc<T> tap = load_as_acc(x[task.flat + i * f.x.space[2]]);
      const Covers columns = covers_of(f.axis[2], task.first + i);
      Sum sum;
      for (int64_t a = slices.first; a <= slices.last; a += slices.step)
        for (int64_t b = rows.first; b <= rows.last; b += rows.step) {
          pace.add(columns.last - columns.first + 1);
          add(sum, tap, columns, task.y + a * f.y.space[0] + b * f.y.space[1],
              task.indices + a * f.indices.space[0] + b * f.indices.space[1]);
        }
      result[task.x + i * plan.result.space[2]] = store_as<T>(sum.result());
      pace.add(1);
    }
  }

  void add(Sum& sum, Acc<T> tap, const Covers& columns, int64_t grads, int64_t norms) const {
    for (int64_t c = columns.first; c <= columns.last; c += columns.step)
      sum.add(lp_share(tap, f.p == 1 ? Acc<T>{1} : this->norm(norms + c * f.indices.space[2]),
                       Acc<T>(load_as_acc(grad[grads + c * f.y.space[2]])), f.p));
  }
};

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
