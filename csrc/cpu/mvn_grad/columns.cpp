// The gradient of normalization by columns: statistics and sums of all columns row by row, joined
// into the cells', then dx in the same order.
#include "cpu/mvn_grad/columns.h"

#include <memory>

#include "cpu/mvn/walk.h"
#include "cpu/mvn_grad/column_block.h"
#include "cpu/threads/arena.h"
#include "cpu/threads/interrupt.h"
#include "cpu/threads/parallel.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

template <class T>
class ColumnCells {
 public:
  using A = Acc<T>;
  using Block = ColumnBlock<T>;
  using State = CellState<A>;

  ColumnCells(const MvnGradPlan& plan, const Operands& operands)
      : plan_(plan),
        operands_(operands),
        layout_(plan),
        width_(layout_.fold * std::max<int64_t>(1, kColumns / layout_.fold)),
        blocks_((layout_.columns + width_ - 1) / width_),
        parts_((layout_.rows + kPartRows - 1) / kPartRows),
        states_(new State[size_t(plan.cells)]) {}

  void run() {
    for (int64_t cell = 0; cell < plan_.cells; ++cell)
      states_[size_t(cell)] = state_given<A>(plan_, operands_, offsets(cell));
    if (plan_.has_own_statistics()) find_statistics();
    if (plan_.has_own_sums()) find_means();
    if (plan_.wants_dx || plan_.has_totals()) finish();
  }

 private:
  static constexpr int64_t kPartRows = 256;  // whatever is kept beside: sums must not change by it
  static constexpr int64_t kColumns = kGradColumns;

  GradOffsets offsets(int64_t cell) const {
    return GradWalk(plan_.kept, plan_.kept_rank, cell).offsets();
  }

  /// Columns of one block in one part of the rows of one position outside.
  struct Task {
    int64_t outer, part, block;
  };

  /// Calls fn(block) with what belongs to a task's columns.
  template <class Fn>
  void with_block(const Task& task, const Fn& fn) const {
    const int64_t first = task.block * width_, n = std::min(width_, layout_.columns - first);
    const Room<Block> block(plan_, operands_, layout_, states_.get(), task.outer, first, n);
    fn(*block);
  }

  template <class Fn>
  void for_rows(const Task& task, const Fn& fn) const {
    GradOffsets at = GradWalk(plan_.kept, layout_.outer_rank, task.outer).offsets();
    at.add(layout_.at(task.block * width_));
    const int64_t first = task.part * kPartRows;
    GradWalk row(plan_.reduced, layout_.row_rank, first, at);
    for (int64_t r = std::min(kPartRows, layout_.rows - first); r > 0; --r, row.advance())
      fn(row.offsets());
  }

  /// For every task the two sums of each column, added up for each cell.
  template <class AddRow>
  std::unique_ptr<Total<A>[]> cell_sums(const AddRow& add_row) const {
    const int64_t units = layout_.outer * parts_, columns = layout_.columns;
    const std::unique_ptr<double[]> parts(new double[size_t(2 * units * columns)]);
    parallel_for(units * blocks_, plan_.compulsory_bytes(), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        checkpoint();
        const int64_t unit = i / blocks_;
        const Task task{unit / parts_, unit % parts_, i % blocks_};
        with_block(task, [&](Block& block) {
          for_rows(task, [&](const GradOffsets& at) { add_row(block, at); });
          double* const to = parts.get() + 2 * unit * columns + task.block * width_;
          block.take_sums(to, to + columns);
        });
      }
    });
    std::unique_ptr<Total<A>[]> sums(new Total<A>[size_t(2 * plan_.cells)]);
    for (int64_t cell = 0; cell < plan_.cells; ++cell)
      for (int64_t p = 0; p < parts_; ++p)
        for (int k = 0; k < 2; ++k)
          for (int64_t f = 0; f < layout_.fold; ++f)
            sums[size_t(2 * cell + k)].add(
                parts[size_t((2 * (cell / layout_.kept.size * parts_ + p) + k) * columns +
                             cell % layout_.kept.size * layout_.fold + f)]);
    return sums;
  }

  /// One pass about a guess, and where that was far from the mean, another one about the mean.
  void find_statistics() {
    const T* const x = static_cast<const T*>(operands_.inputs[0]);
    for (int64_t cell = 0; plan_.use_mean && cell < plan_.cells; ++cell)
      pivot(cell) = finite_or_0(load_as_acc(x[offsets(cell).x]));
    if (!take_moments(false)) take_moments(true);
  }

  A& pivot(int64_t cell) { return states_[size_t(cell)].normal.pivot; }
  static A finite_or_0(A v) { return is_finite(double(v)) ? v : A(0); }

  /// Whether all guesses were near; a first time those that were not become the mean, and nothing
  /// else is changed if there are any.
  bool take_moments(bool is_last) {
    const auto sums = cell_sums([](Block& block, const GradOffsets& at) { block.add_moments(at); });
    const auto n = double(plan_.cell_size);
    bool are_near = true;
    const auto moments_of = [&](int64_t cell) {
      const double sum = sums[size_t(2 * cell)].value(),
                   square = sums[size_t(2 * cell + 1)].value();
      return plan_.use_mean ? moments_about<A>(n, pivot(cell), sum, square)
                            : Moments<A>{n, 0, 0, square};
    };
    for (int64_t cell = 0; !is_last && plan_.use_mean && cell < plan_.cells; ++cell) {
      const Moments<A> m = moments_of(cell);
      if (m.delta * m.delta <= 4 * (m.m2 / n)) continue;
      are_near = false;
      pivot(cell) = finite_or_0(static_cast<A>(double(m.pivot) + m.delta));
    }
    if (!are_near) return false;
    for (int64_t cell = 0; cell < plan_.cells; ++cell)
      states_[size_t(cell)].normal =
          normalizer_of(moments_of(cell), plan_.use_variance, plan_.epsilon);
    return true;
  }

  void find_means() {
    const auto sums =
        cell_sums([](Block& block, const GradOffsets& at) { block.add_products(at); });
    const auto n = double(plan_.cell_size);
    for (int64_t cell = 0; cell < plan_.cells; ++cell) {
      State& state = states_[size_t(cell)];
      if (plan_.use_mean) state.mean_w = static_cast<A>(sums[size_t(2 * cell)].value() / n);
      if (plan_.use_variance)
        state.mean_wz = static_cast<A>(sums[size_t(2 * cell + 1)].value() / n);
    }
  }

  /// dx, and the totals: shares of the parts for themselves, blocks side by side where they have no
  /// element in common.
  void finish() const {
    const int64_t units = layout_.outer * parts_;
    const int64_t shares = plan_.has_totals() ? shares_of(plan_, units) : units;
    const bool are_apart = !plan_.has_totals() || are_blocks_apart();
    const int64_t turns = are_apart ? blocks_ : 1;
    const Totals<A> totals(plan_, plan_.has_totals() ? shares : 0, operands_);
    parallel_for(shares * turns, plan_.compulsory_bytes(), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t share = i / turns, last = part_begin(units, share + 1, shares);
        for (int64_t unit = part_begin(units, share, shares); unit < last; ++unit)
          for (int64_t b = are_apart ? i % turns : 0; b < (are_apart ? i % turns + 1 : blocks_);
               ++b)
            finish_task({unit / parts_, unit % parts_, b}, totals, share);
      }
    });
    totals.finish();
  }

  void finish_task(const Task& task, const Totals<A>& totals, int64_t share) const {
    checkpoint();
    with_block(task, [&](Block& block) {
      for_rows(task, [&](const GradOffsets& at) { block.finish_row(at); });
      if (!plan_.has_totals()) return;
      const GradOffsets at = GradWalk(plan_.kept, layout_.outer_rank, task.outer).offsets();
      block.add_totals(totals, share, at, task.block * width_);
    });
  }

  bool are_blocks_apart() const {
    for (int k = 0; k < 2; ++k)
      if (plan_.totals[k].is_wanted && layout_.kept.totals[k] == 0) return false;
    return true;
  }

  const MvnGradPlan& plan_;
  const Operands& operands_;
  GradColumns layout_;
  int64_t width_, blocks_, parts_;
  std::unique_ptr<State[]> states_;
};

}  // namespace

bool are_grad_columns_apart(const MvnGradPlan& plan) {
  if (plan.reduced_rank == 0) return false;
  const GradColumns layout(plan);
  if (layout.fold == 1 && plan.reduced[plan.reduced_rank - 1].x < 8) return false;
  for (int d = 0; d < layout.row_rank; ++d) {
    const MvnGradAxis& a = plan.reduced[d];
    if (a.scale || a.bias || a.totals[0] || a.totals[1]) return false;
  }
  return true;
}

template <class T>
void mvn_grad_columns(const MvnGradPlan& plan, const Operands& operands) {
  ColumnCells<T>(plan, operands).run();
}

template void mvn_grad_columns<float>(const MvnGradPlan&, const Operands&);
template void mvn_grad_columns<double>(const MvnGradPlan&, const Operands&);
template void mvn_grad_columns<Float16>(const MvnGradPlan&, const Operands&);
template void mvn_grad_columns<BFloat16>(const MvnGradPlan&, const Operands&);

}  // namespace cudml::cpu::CUDML_ISA
