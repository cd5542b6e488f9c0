// Gradient of Lp pooling by windows of three rows and columns, two apart, on packed planes: rows of
// elements by twos of neighbours, in registers.
#pragma once

#include "cpu/pool/reduce.h"
#include "cpu/pool_grad/lp_vectors.h"
#include "cpu/pool_grad/third_rows.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

template <class T>
class LpThirds : LpArrays<T> {
  using Base = LpArrays<T>;
  using Base::f, Base::grad, Base::plan, Base::result, Base::x;
  using V = Acc<T>;
  using W = Vector<V>;
  static constexpr int64_t kStep = kLanes<V>;

 public:
  explicit LpThirds(const Base& base)
      : Base(base),
        rows_(plan, int64_t(sizeof(T))),
        x_end_(end_of(f, x, f.x, &PoolOuter::x, &PoolAxis::in)),
        grad_end_(end_of(f, grad, f.y, &PoolOuter::y, &PoolAxis::out)),
        norms_(static_cast<const char*>(base.norms)),
        norms_end_(f.p == 1 ? 0
                            : end_of(f, norms_, f.indices, &PoolOuter::indices, &PoolAxis::out) -
                                  norms_) {}

  static bool fits(const PoolGradPlan& plan) {
    const PoolPlan& f = plan.forward;
    return ThirdRows::fits(plan) && f.x.space[2] == 1 && f.y.space[2] == 1 &&
           f.indices.space[2] == 1;
  }

  void run() const {
    const TaskSpace space = rows_.tasks(plan);
    parallel_for(space.count(), plan.compulsory_bytes(), [&](int64_t begin, int64_t end) {
      ThirdRoom<T> room(rows_);
      for_tasks(space, begin, end, [&](const Task& task, int64_t) {
        rows_.put(task, result, room, f.axis[1].in,
                  [&](int64_t y, T* to) { f.p == 2 ? row<2>(task, y, to) : row<0>(task, y, to); });
      });
    });
  }

 private:
  /// Windows that follow each other; where there are none, norms of 0 hand out nothing.
  struct Windows {
    W grad, norm;
  };

  /// kPower is that of the norm, or 0 for any.
  template <int kPower>
  void row(const Task& task, int64_t y, T* to) const {
    rows_.start == 0 ? row_from<0, kPower>(task, y, to) : row_from<1, kPower>(task, y, to);
  }

  /// A row of elements. The first ones are the windows' first ones, or the middle ones. Every
  /// element adds up its windows in their order.
  template <int kStart, int kPower>
  [[gnu::noinline]] void row_from(const Task& task, int64_t y, T* to) const {
    const Covers over = covers_by_twos(f.axis[1], y);
    const T* const from = x + task.flat + y * f.x.space[1];
    Windows known[2];
    known[0] = known[1] = Windows{W{}, W{}};
    for (int64_t b = over.first; kStart == 1 && b <= over.last; ++b)
      known[b - over.first] = windows_at(task, b, 0);
    for (int64_t i = 0; i < rows_.cells; i += kStep) {
      const W a = taps_at(from, 2 * i), b = taps_at(from, 2 * i + kStep);
      const W taps[2] = {pick<0, 2>(a, b, kLanesOf<W>), pick<1, 2>(a, b, kLanesOf<W>)};
      W sums[2] = {};
      for (int64_t o = over.first; o <= over.last; ++o) {
        Windows& one = known[o - over.first];
        const Windows other = windows_at(task, o, kStart ? i + kStep : i);
        if constexpr (kStart == 0) {
          add<kPower>(taps[0], {one_before(one.grad, other.grad), one_before(one.norm, other.norm)},
                      sums[0]);
          add<kPower>(taps[0], other, sums[0]);
          add<kPower>(taps[1], other, sums[1]);
        } else {
          add<kPower>(taps[0], one, sums[0]);
          add<kPower>(taps[1], one, sums[1]);
          add<kPower>(taps[1], {one_after(one.grad, other.grad), one_after(one.norm, other.norm)},
                      sums[1]);
        }
        one = other;
      }
      store_pairs(to + 2 * i, sums[0], sums[1]);
    }
  }

  template <int kPower>
  [[gnu::always_inline]] void add(const W& taps, const Windows& w, W& sum) const {
    const W share = lp_share<W>(taps, w.norm, w.grad, kPower ? uint32_t(kPower) : f.p);
    sum += !kPower && f.p == 1 ? (w.norm == W{} ? W{} : share) : share;  // others look themselves
  }

  /// Elements of a row from number i on; what stands behind the row is of no use.
  W taps_at(const T* row, int64_t i) const {
    const int64_t left = rows_.columns - i;
    if (left >= kStep || row + i + kStep <= x_end_) return load_floats(row + i);
    return left > 0 ? few(row + i, left) : W{};
  }

  [[gnu::always_inline]] Windows windows_at(const Task& task, int64_t o, int64_t i) const {
    const int64_t n = std::min(rows_.windows - i, kStep);
    if (n <= 0) return {W{}, W{}};
    const W grads = leading(grad + task.y + o * f.y.space[1] + i, n, grad_end_);
    const W norms = f.p == 1 ? W{} + 1 : norms_at(task.indices + o * f.indices.space[1] + i, n);
    return {grads, ascending<IntegerLike<V>>() < IntegerLike<V>(n) ? norms : W{}};
  }

  [[gnu::always_inline]] W norms_at(int64_t at, int64_t n) const {
    const auto load = [&]<class E>(const E* all) { return leading(all + at, n, all + norms_end_); };
    if constexpr (!std::is_same_v<T, V>)
      if (!this->are_norms_wide) return load(static_cast<const T*>(this->norms));
    return load(static_cast<const V*>(this->norms));
  }

  /// n numbers from p on, and what stands behind them, if anything does before `end`.
  template <class E>
  [[gnu::always_inline]] static W leading(const E* p, int64_t n, const E* end) {
    return n == kStep || p + kStep <= end ? load_floats(p) : few(p, n);
  }
  template <class E>
  [[gnu::noinline]] static W few(const E* p, int64_t n) {
    return load_between(SumOf<E>{}, p, 0, n);
  }

  const ThirdRows rows_;
  const T *const x_end_, *const grad_end_;
  const char* const norms_;
  const int64_t norms_end_;  // of the norms' elements
};

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
