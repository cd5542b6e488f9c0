// Gradient of Lp pooling, a row after the other: its elements phase by phase of the windows' step,
// so that one tap shifts whole vectors of elements by whole windows.
#pragma once

#include "cpu/memory/tuning.h"
#include "cpu/pool_grad/lp_vectors.h"
#include "cpu/pool_grad/neighbours.h"
#include "cpu/threads/arena.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

template <class T>
class LpRows : LpArrays<T> {
  using Base = LpArrays<T>;
  using Base::f, Base::grad, Base::plan, Base::result, Base::x;
  using V = Acc<T>;
  static constexpr int64_t kStep = kLanes<V>, kMostStride = 64;
  static constexpr int64_t kMostReach = 64;  // windows before an element's own
  static constexpr int64_t kColumns = tuning::pool_grad::kLpColumns;
  static constexpr int64_t kLine = kColumns + kMostReach + 2 * kStep;
  static constexpr int64_t kPhases = kColumns + kMostStride * (kStep + 2) + kStep;

 public:
  explicit LpRows(const Base& base) : Base(base), w_(base.f.axis[2]) {}

  /// Several windows along packed rows of x, a small step apart.
  static bool fits(const PoolGradPlan& plan) {
    const PoolAxis& w = plan.forward.axis[2];
    return w.out > 1 && w.stride <= kMostStride &&
           (w.window - 1) * w.dilation <= kMostReach * w.stride;
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
  /// Phases hold each element once; whole vectors may run beyond the last of a phase, over numbers
  /// of which nothing comes.
  struct Scratch {
    alignas(64) V taps[kPhases] = {}, sums[kPhases];
    alignas(64) V norms[kLine], grads[kLine] = {}, line[kColumns + 4 * kStep] = {};
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
    std::fill_n(s.sums, w_.stride * cut.pitch, V{0});
    load_grads<T>(s.line, x + task.flat, f.x.space[2], task.n);
    split(cut, task.n, s);
    const Reach reach = reach_of(w_, task.first, task.first + task.n - 1);
    const Covers slices = covers_of(f.axis[0], task.space(0));
    const Covers rows = covers_of(f.axis[1], task.space(1));
    Pace pace;
    for (int64_t a = slices.first; a <= slices.last; a += slices.step)
      for (int64_t b = rows.first; b <= rows.last; b += rows.step) {
        add_windows(task, a, b, reach, cut, s);
        pace.add(w_.window * (reach.last - reach.first + 1));
      }
    merge(cut, task.n, s);
    store_grads<T>(result + task.x, plan.result.space[2], s.line, task.n);
  }

  /// Where the first element of a phase stands among the task's, and in the phases.
  struct PhaseBegin {
    int64_t element, at;
  };
  PhaseBegin begin_of(const Cut& cut, int64_t phase) const {
    const int64_t step = w_.stride, ahead = (phase - cut.offset % step + step) % step;
    return {ahead, phase * cut.pitch + (cut.offset + ahead) / step - cut.first};
  }

  /// The task's elements from the line into their phases; whole vectors where they are few.
  void split(const Cut& cut, int64_t n, Scratch& s) const {
    for (int64_t phase = 0; phase < w_.stride; ++phase) {
      const PhaseBegin begin = begin_of(cut, phase);
      const V* const from = s.line + begin.element;
      V* const to = s.taps + begin.at;
      const int64_t count = (n - begin.element + w_.stride - 1) / w_.stride;
      if (w_.stride == 2)
        for (int64_t i = 0; i < count; i += kStep)
          store_vector(to + i, every_second<0>(from + 2 * i));
      else
        for (int64_t i = 0; i < count; ++i) to[i] = from[i * w_.stride];
    }
  }

  /// And what they add up to, back.
  void merge(const Cut& cut, int64_t n, Scratch& s) const {
    if (w_.stride == 2) {
      const int64_t first = cut.offset % 2;
      return interleave(s.sums + begin_of(cut, first).at, s.sums + begin_of(cut, 1 - first).at, n,
                        s.line);
    }
    for (int64_t phase = 0; phase < w_.stride; ++phase) {
      const PhaseBegin begin = begin_of(cut, phase);
      const V* from = s.sums + begin.at;
      for (int64_t i = begin.element; i < n; i += w_.stride) s.line[i] = *from++;
    }
  }

  static void interleave(const V* a, const V* b, int64_t n, V* to) {
    for (int64_t at = 0; at < n; at += 2 * kStep, a += kStep, b += kStep)
      store_pairs(to + at, load_vector<Vector<V>>(a), load_vector<Vector<V>>(b));
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
    std::fill_n(s.norms + n, kStep, V{0});  // no window, which hands out nothing
    for (int64_t k = w_.window - 1; k >= 0; --k) {
      const int64_t at = k * w_.dilation, begin = reach.first + at / w_.stride - cut.first;
      const int64_t phase = at % w_.stride * cut.pitch + begin;
      const int64_t from = std::max<int64_t>(0, -begin), to = std::min(n, cut.length - begin);
      add_taps(s.taps + phase, s.norms, s.grads, from, to, s.sums + phase);
    }
  }

  void load_norms(int64_t offset, int64_t n, Scratch& s) const {
    if (f.p == 1) return void(std::fill_n(s.norms, n, V{1}));
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
      return f.p == 1 ? (norm == none ? none : share) : share;  // others look themselves
    };
    for (int64_t i = from; i < to; i += kStep) {
      const W norm = load_vector<W>(norms + i);
      const W share = lp_share<W>(load_vector<W>(taps + i), norm, load_vector<W>(grads + i), f.p);
      store_vector(sums + i, load_vector<W>(sums + i) + of_windows(norm, share));
    }
  }

  const PoolAxis& w_;
};

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
