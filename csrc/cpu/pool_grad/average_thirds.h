// Gradient of average pooling by windows of three rows and columns, two apart, on packed planes:
// rows of windows become rows twice as long, in registers.
#pragma once

#include <vector>

#include "cpu/memory/line_stream.h"
#include "cpu/pool/reduce.h"
#include "cpu/pool_grad/third_rows.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

template <class T>
class AverageThirds {
  using Sum = Acc<T>;
  using Sums = Vector<Sum>;
  using Lane = IntegerLike<Sum>;
  static constexpr int64_t kStep = kLanes<Sum>;

 public:
  static bool fits(const PoolGradPlan& plan) {
    return ThirdRows::fits(plan) && plan.forward.y.space[2] == 1;
  }

  AverageThirds(const PoolGradPlan& plan, const void* grad, void* result)
      : plan_(plan),
        f_(plan.forward),
        rows_(plan, int64_t(sizeof(T))),
        grad_(static_cast<const T*>(grad)),
        result_(static_cast<T*>(result)),
        end_(end_of(f_, grad_, f_.y, &PoolOuter::y, &PoolAxis::out)) {}

  void run() const {
    const TaskSpace space = rows_.tasks(plan_);
    parallel_for(space.count(), plan_.compulsory_bytes(), [&](int64_t begin, int64_t end) {
      Scratch s(rows_, f_);
      for_tasks(space, begin, end, [&](const Task& task, int64_t) {
        rows_.put(task, result_, s.room, f_.axis[1].in,
                  [&](int64_t y, T* to) { join(task, y, s, to); });
      });
    });
  }

 private:
  /// A row of windows, each of whose elements gets the product.
  struct Row {
    const T* grad;
    const Sum* factors;
  };

  /// The rows of windows over a row of elements: the offset of the first one's gradients.
  struct Over {
    int64_t count, grad;
    const Sum* factors[2];
  };

  /// What planes have in common.
  struct Scratch {
    ThirdRoom<T> room;
    std::vector<Sum> factors;  // of columns, by the rows of a window that count
    std::vector<Over> over;

    Scratch(const ThirdRows& rows, const PoolPlan& f) : room(rows) {
      const int64_t pitch = rows.windows + kStep;
      factors.resize(size_t(4 * pitch));
      for (int64_t count = 1; count <= 3; ++count)
        for (int64_t i = 0; i < rows.windows; ++i)
          factors[size_t(count * pitch + i)] = 1 / Sum(count * counted_at(f, 2, i));
      over.resize(size_t(f.axis[1].in));
      for (int64_t y = 0; y < f.axis[1].in; ++y) {
        const Covers c = covers_of(f.axis[1], y);
        Over& o = over[size_t(y)] = {c.last - c.first + 1, c.first * f.y.space[1], {}};
        for (int64_t b = 0; b < o.count; ++b)
          o.factors[b] = factors.data() + counted_at(f, 1, c.first + b) * pitch;
      }
    }
  };

  void join(const Task& task, int64_t y, const Scratch& s, T* to) const {
    const Over& over = s.over[size_t(y)];
    const T* const grad = grad_ + task.y + over.grad;
    const Row rows[2] = {{grad, over.factors[0]}, {grad + f_.y.space[1], over.factors[1]}};
    if (over.count <= 0) return void(std::fill_n(to, f_.axis[2].in, T{}));
    if (over.count == 1) return expand<1>(rows, to);
    expand<2>(rows, to);
  }

  /// Elements of a row from the rows of windows over it.
  template <int kRows>
  void expand(const Row* rows, T* to) const {
    rows_.start == 0 ? expand_from<kRows, 0>(rows, to) : expand_from<kRows, 1>(rows, to);
  }

  /// The first elements are the windows' first ones, or the middle ones.
  template <int kRows, int kStart>
  void expand_from(const Row* rows, T* to) const {
    const Row own[2] = {rows[0], rows[kRows - 1]};
    Sums now = kStart ? joined<kRows>(own, 0) : Sums{};
    for (int64_t i = 0; i < rows_.cells; i += kStep, to += 2 * kStep) {
      const int64_t next_at = kStart ? i + kStep : i;
      const Sums next = next_at < rows_.windows ? joined<kRows>(own, next_at) : Sums{};
      if constexpr (kStart)
        store_pairs(to, now, now + one_after(now, next));
      else
        store_pairs(to, one_before(now, next) + next, next);
      now = next;
    }
  }

  /// What windows from number i on hand out, of all rows.
  template <int kRows>
  [[gnu::always_inline]] Sums joined(const Row* rows, int64_t i) const {
    Sums sum = shares(rows[0], i);
    if constexpr (kRows == 2) sum += shares(rows[1], i);
    return sum;
  }

  [[gnu::always_inline]] Sums shares(const Row& row, int64_t i) const {
    const int64_t left = rows_.windows - i;
    const Sums factors = load_vector<Sums>(row.factors + i);
    if (left >= kStep) return load_floats(row.grad + i) * factors;
    const Sums grads = row.grad + i + kStep <= end_
                           ? load_floats(row.grad + i)
                           : load_between(SumOf<T>{}, row.grad + i, 0, left);
    return ascending<Lane>() < Lane(left) ? grads * factors : Sums{};
  }

  const PoolGradPlan& plan_;
  const PoolPlan& f_;
  const ThirdRows rows_;
  const T* const grad_;
  T* const result_;
  const T* const end_;  // of gradients
};

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
