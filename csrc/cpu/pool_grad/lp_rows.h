// Gradient of Lp pooling, a row after the other: its elements phase by phase of the windows' step,
// so that one tap shifts whole vectors of elements by whole windows.
#pragma once

#include "cpu/pool_grad/lp_vectors.h"
#include "cpu/threads/arena.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

template <class T, class Exponent>
class LpRows : LpArrays<T> {
  using Base = LpArrays<T>;
  using Base::f, Base::grad, Base::plan, Base::result, Base::x;
  using V = Acc<T>;
  static constexpr int64_t kStep = kLanes<V>, kMostStride = 8, kMostReach = 64, kColumns = 1024;
  static constexpr int64_t kLine = kColumns + kMostReach + 2 * kStep;
  static constexpr int64_t kPhases = kColumns + kMostStride * (kStep + 2);

 public:
  LpRows(const Base& base, Exponent p) : Base(base), w_(base.f.axis[2]), p_(p) {}

  /// Several windows along packed rows of x, a small step apart.
  static bool fits(const PoolGradPlan& plan) {
    const PoolAxis& w = plan.forward.axis[2];
    return w.out > 1 && w.stride <= kMostStride && (w.window - 1) * w.dilation <= kMostReach;
  }

  void run() const {
    TaskSpace space = plane_tasks(plan, false, 1);
    for (int i = 0; i < 2; ++i)
      space.dim[kSpaceDim + i] = {f.axis[i].in, plan.result.space[i], 0, 0, f.x.space[i]};
    space.lanes = w_.in;
    space.chunk = even_part(w_.in, kColumns);
    const int64_t c = space.chunk;
    space.dim[kLaneDim] = {(w_.in + c - 1) / c, plan.result.space[2] * c, 0, 0, f.x.space[2] * c};
    parallel_for(space.count(), plan.compulsory_bytes(), [&](int64_t begin, int64_t end) {
      const Room<Scratch> room;
      for_tasks(space, begin, end, [&](const Task& task, int64_t) { join(task, *room); });
    });
  }

 private:
  /// Phases hold each element once; whole vectors may run beyond the last of a phase.
  struct Scratch {
    alignas(64) V taps[kPhases], sums[kPhases];
    alignas(64) V norms[kLine], grads[kLine], line[kColumns];
  };

  /// Where a task's elements stand: element i is number (offset + i) / stride - first of phase
  /// (offset + i) % stride, and phases are `pitch` apart.
  struct Cut {
    int64_t offset, first, length, pitch;
  };

  void join(const Task& task, Scratch& s) const {
    Cut cut;
    cut.offset = task.first + w_.start;
    cut.first = cut.offset / w_.stride;
    cut.length = (cut.offset + task.n - 1) / w_.stride - cut.first + 1;
    cut.pitch = cut.length + kStep;
    std::fill_n(s.taps, w_.stride * cut.pitch, V{0});
    std::fill_n(s.sums, w_.stride * cut.pitch, V{0});
    load_grads<T>(s.line, x + task.flat, f.x.space[2], task.n);
    each(cut, task.n, [&](int64_t i, int64_t at) { s.taps[at] = s.line[i]; });
    const Reach reach = reach_of(w_, task.first, task.first + task.n - 1);
    const Covers slices = covers_of(f.axis[0], task.space(0));
    const Covers rows = covers_of(f.axis[1], task.space(1));
    Pace pace;
    for (int64_t a = slices.first; a <= slices.last; a += slices.step)
      for (int64_t b = rows.first; b <= rows.last; b += rows.step) {
        add_windows(task, a, b, reach, cut, s);
        pace.add(w_.window * (reach.last - reach.first + 1));
      }
    each(cut, task.n, [&](int64_t i, int64_t at) { s.line[i] = s.sums[at]; });
    store_grads<T>(result + task.x, plan.result.space[2], s.line, task.n);
  }

  /// Calls fn(element, its place in the phases).
  template <class Fn>
  void each(const Cut& cut, int64_t n, const Fn& fn) const {
    const int64_t step = w_.stride;
    for (int64_t phase = 0; phase < step; ++phase) {
      const int64_t ahead = (phase - cut.offset % step + step) % step;
      int64_t at = phase * cut.pitch + (cut.offset + ahead) / step - cut.first;
      if (step == 1)
        for (int64_t i = 0; i < n; ++i) fn(i, at + i);
      else if (step == 2)
        for (int64_t i = ahead; i < n; i += 2) fn(i, at++);
      else
        for (int64_t i = ahead; i < n; i += step) fn(i, at++);
    }
  }

  /// One row of windows. Backwards through the taps, so that every element adds up its windows in
  /// ascending order.
  void add_windows(const Task& task, int64_t a, int64_t b, Reach reach, const Cut& cut,
                   Scratch& s) const {
    const int64_t n = reach.last - reach.first + 1;
    if (n <= 0) return;
    const int64_t grads = a * f.y.space[0] + b * f.y.space[1] + reach.first * f.y.space[2];
    load_grads<T>(s.grads, grad + task.y + grads, f.y.space[2], n);
    load_norms(task.indices + a * f.indices.space[0] + b * f.indices.space[1] +
                   reach.first * f.indices.space[2],
               n, s);
    std::fill_n(s.grads + n, kStep, V{0});
    std::fill_n(s.norms + n, kStep, V{0});  // no window, which hands out nothing
    for (int64_t k = w_.window - 1; k >= 0; --k) {
      const int64_t at = k * w_.dilation, begin = reach.first + at / w_.stride - cut.first;
      const int64_t phase = at % w_.stride * cut.pitch + begin;
      const int64_t from = std::max<int64_t>(0, -begin), to = std::min(n, cut.length - begin);
      add_taps(s.taps + phase, s.norms, s.grads, from, to, s.sums + phase);
    }
  }

  void load_norms(int64_t offset, int64_t n, Scratch& s) const {
    if (p_.value() == 1) return void(std::fill_n(s.norms, n, V{1}));
    const int64_t step = f.indices.space[2];
    if (this->are_norms_wide)
      load_grads<V>(s.norms, static_cast<const V*>(this->norms) + offset, step, n);
    else
      load_grads<T>(s.norms, static_cast<const T*>(this->norms) + offset, step, n);
  }

  void add_taps(const V* taps, const V* norms, const V* grads, int64_t from, int64_t to,
                V* sums) const {
    using W = Vector<V>;
    const W none = {};
    const auto of_windows = [&](const W& norm, const W& share) {
      return p_.value() == 1 ? (norm == none ? none : share) : share;  // others look themselves
    };
    for (int64_t i = from; i < to; i += kStep) {
      const W norm = load_vector<W>(norms + i);
      const W share =
          lp_share<W>(load_vector<W>(taps + i), norm, load_vector<W>(grads + i), p_.value());
      store_vector(sums + i, load_vector<W>(sums + i) + of_windows(norm, share));
    }
  }

  const PoolAxis& w_;
  const Exponent p_;
};

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
