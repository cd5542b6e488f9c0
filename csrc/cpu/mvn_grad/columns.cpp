// The gradient of normalization by columns: statistics and sums of all columns strip by strip,
// joined into the cells', then dx in the same order. Where the gradient passes an activation as it
// is, one pass gives all sums.
#include "cpu/mvn_grad/columns.h"

#include <memory>
#include <numeric>

#include "cpu/memory/tuning.h"
#include "cpu/mvn_grad/column_block.h"
#include "cpu/mvn_grad/line_rows.h"
#include "cpu/mvn_grad/wide_block.h"
#include "cpu/threads/arena.h"
#include "cpu/threads/interrupt.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

template <class T>
class ColumnCells {
 public:
  static constexpr bool kIsWide = std::is_same_v<T, double>;
  using Block = std::conditional_t<kIsWide, WideBlock, ColumnBlock<T>>;

  ColumnCells(const MvnGradPlan& plan, const Operands& operands)
      : plan_(plan),
        operands_(operands),
        needs_products_(plan.has_totals() || plan.has_own_sums()),
        sums_(plan, operands, needs_products_),
        layout_(sums_.layout()),
        part_rows_(part_rows_of(layout_.rows)),
        parts_((layout_.rows + part_rows_ - 1) / part_rows_),
        width_(width_of(layout_.columns)),
        turn_(std::max<int64_t>(1, tuning::mvn_grad::kTurnElements * layout_.outer /
                                       std::max<int64_t>(1, plan.cells * plan.cell_size))),
        is_in_turn_(goes_in_turn()),
        stripe_(stripe_of()),
        keeps_h_(keeps_slopes()) {
    if (stripe_ > 0) width_ = stripe_ * layout_.fold;
    if (has_parts()) sums_of_parts_.reset(new double[size_t(4 * part_columns())]);
  }

  void run() {
    const int64_t bytes = plan_.compulsory_bytes(), kept = layout_.kept.size;
    if (is_in_turn_)
      parallel_for(layout_.outer, bytes, [&](int64_t begin, int64_t end) {
        for (int64_t outer = begin; outer < end; outer += turn_)
          run_cells({outer, std::min(outer + turn_, end), 0, kept});
      });
    else if (stripe_ > 0)
      parallel_for((kept + stripe_ - 1) / stripe_, bytes, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i)
          run_cells({0, 1, i * stripe_, std::min((i + 1) * stripe_, kept)});
      });
    else
      run_cells(layout_.all());
    if (plan_.has_totals()) sums_.add_totals();
  }

 private:
  static constexpr int64_t kManyPositions = 4;  // for each thread, whose shares are even then
  static constexpr int64_t kMostWidth = kIsWide ? tuning::mvn_grad::kGradColumns : kBlockColumns;

  /// Rows whose sums are added up together, in whole strips: few parts of many rows, whatever is
  /// kept beside, since sums must not change by it.
  static int64_t part_rows_of(int64_t rows) {
    using tuning::mvn_grad::kFewestPartRows, tuning::mvn_grad::kMostPartRows;
    const int64_t share = rows / tuning::mvn_grad::kColumnParts / kStripRows * kStripRows;
    return std::clamp(share, kFewestPartRows, kMostPartRows);
  }

  /// The cells at some positions of the kept dimensions outside, by as many passes as they need.
  void run_cells(const CellRange& range) {
    ColumnWork last{false, needs_products_, plan_.wants_dx};
    if (plan_.has_own_statistics()) {
      const bool has_products = needs_products_ && !reads_input(plan_.activation.kind);
      find_statistics(range, has_products);
      last.products = needs_products_ && !(has_products && sums_.are_joined(range));
    }
    if (plan_.has_own_sums()) {
      if (last.products) take_pass(range, {false, true, false, keeps_h_});
      sums_.find_means(range);
      last.products = false;
      last.is_kept = keeps_h_;
    }
    if (write_lines(last)) return;
    if (last.products || last.writes) take_pass(range, last);
  }

  /// Writes dx as rows of lines, where that is all there is to do and they are better.
  bool write_lines(const ColumnWork& work) const {
    if constexpr (!kIsWide) {
      if (!work.writes || work.products || work.is_kept || is_in_turn_ || stripe_ > 0) return false;
      const LineRows<T> rows(plan_, operands_, layout_);
      if (rows.do_suit()) rows.write(sums_.states());
      return rows.do_suit();
    }
    return false;
  }

  /// Whether a thread takes all passes over the cells at few positions before those at the next
  /// ones, and finds in its caches what it has read: threads have as many positions then, or many.
  bool goes_in_turn() const {
    const int64_t threads = num_threads(), outer = layout_.outer;
    return outer > 1 && (outer % threads == 0 || outer >= kManyPositions * threads);
  }

  /// Threads do not wait for each other after each pass where one takes all passes over some
  /// columns, in whole tiles and several times. Rows that stay in no cache are read faster whole.
  int64_t stripe_of() const {
    using tuning::mvn_grad::kStripeColumns, tuning::mvn_grad::kMostStripedBytes;
    const int64_t threads = num_threads(), fold = layout_.fold;
    const bool is_one_row = layout_.outer == 1 && layout_.repeat == 1;
    if (threads == 1 || !is_one_row || !plan_.has_own_sums()) return 0;
    if (2 * layout_.rows * layout_.columns * int64_t(sizeof(T)) > kMostStripedBytes) return 0;
    const int64_t unit = std::lcm(kStripeColumns, fold);
    return std::min(layout_.columns / (2 * threads), kMostWidth) / unit * unit / fold;
  }

  /// Whether columns have more than one sum, and those of all.
  bool has_parts() const { return parts_ > 1 || layout_.repeat > 1; }
  int64_t part_columns() const { return layout_.outer * parts_ * layout_.columns; }
  double* sums_of_parts(int k) const { return sums_of_parts_.get() + k * part_columns(); }

  /// Whether h stays where dx will be, if no column is in two tiles: slopes cost more than the
  /// caches, and but for quick ones more than memory.
  bool keeps_slopes() const {
    const Activation& f = plan_.activation;
    const bool has_place = std::is_same_v<T, Acc<T>> && plan_.wants_dx && plan_.has_own_sums() &&
                           (kIsWide || layout_.columns % kTileColumns == 0);
    if (!has_place || layout_.is_gathered) return false;
    if (!reads_input(f.kind) || Gate<float>::suits(f)) return false;
    const int64_t cells = is_in_turn_ ? layout_.kept.size : plan_.cells;
    return cells * plan_.cell_size <= tuning::mvn_grad::kMostKeptColumns || kIsWide ||
           !SwishPass::suits(f);
  }

  /// Even blocks that begin lines where rows do.
  int64_t width_of(int64_t columns) const {
    constexpr int64_t kUnit = std::max<int64_t>(kTileColumns, 32);
    const int64_t blocks = blocks_of(columns), width = (columns + blocks - 1) / blocks;
    return (width + kUnit - 1) / kUnit * kUnit;
  }

  /// Blocks of a row: what a tile's columns come to does not depend on its block.
  int64_t blocks_of(int64_t columns) const {
    using tuning::mvn_grad::kGradColumns, tuning::mvn_grad::kLeastColumnShares;
    const auto blocks = [&](int64_t width) { return (columns + width - 1) / width; };
    if (kIsWide || reads_input(plan_.activation.kind)) return blocks(kGradColumns);
    const int64_t units = layout_.outer * parts_;
    return std::clamp((kLeastColumnShares + units - 1) / units, blocks(kBlockColumns),
                      blocks(kGradColumns));
  }

  /// One pass about a guess, and where that was far from the mean, another one about the mean.
  void find_statistics(const CellRange& range, bool has_products) {
    const ColumnWork work{true, has_products, false};
    if (plan_.use_mean) sums_.guess(range);
    take_pass(range, work);
    if (sums_.take_statistics(range, has_products, false)) return;
    take_pass(range, work);
    sums_.take_statistics(range, has_products, true);
  }

  /// One pass over all rows of some cells. Sums of all columns are added up part by part.
  void take_pass(const CellRange& range, const ColumnWork& work) {
    const int64_t blocks = (range.each() * layout_.fold * layout_.repeat + width_ - 1) / width_,
                  tasks = range.outers() * parts_ * blocks;
    const auto pass = [&](int64_t begin, int64_t end) {
      run_tasks(range, blocks, begin, end, work);
    };
    if (is_in_turn_ || stripe_ > 0)
      pass(0, tasks);
    else
      parallel_for(tasks, plan_.compulsory_bytes(), pass);
    if (!has_parts()) return;
    for (int k = 0; k < 4; ++k)
      if (k < 2 ? work.moments : work.products) sums_.add_parts(range, sums_of_parts(k), parts_, k);
  }

  /// Tasks [begin, end) of a pass: parts of blocks.
  void run_tasks(const CellRange& range, int64_t blocks, int64_t begin, int64_t end,
                 const ColumnWork& work) {
    const Room<Block> block(plan_, operands_, layout_);
    const Room<Elements<double, 4 * kMostWidth>> sums;
    for (int64_t i = begin; i < end; ++i) {
      checkpoint();
      const int64_t part = i % parts_, b = i / parts_ % blocks,
                    outer = range.outer + i / parts_ / blocks,
                    first = range.begin * layout_.fold + b * width_,
                    last = range.end * layout_.fold * layout_.repeat;
      const ColumnSpan span{outer, first, std::min(width_, last - first)};
      if (block->span() != span) block->begin(span, sums_.states());
      run_part(*block, part, work);
      double* to[4];
      for (int k = 0; k < 4; ++k)
        to[k] = has_parts() ? sums_of_parts(k) + (outer * parts_ + part) * layout_.columns + first
                            : sums->at + k * kMostWidth;
      block->take_sums(work, to);
      if (has_parts()) continue;
      for (int k = 0; k < 4; ++k)
        if (k < 2 ? work.moments : work.products) sums_.put(outer, first, span.n, to[k], k);
    }
  }

  void run_part(Block& block, int64_t part, const ColumnWork& work) const {
    block.clear();
    const int64_t end = std::min(layout_.rows, (part + 1) * part_rows_);
    for (int64_t r = part * part_rows_; r < end; r += kStripRows)
      block.run(r, std::min(kStripRows, end - r), work);
  }

  const MvnGradPlan& plan_;
  const Operands& operands_;
  bool needs_products_;
  ColumnSums<Acc<T>> sums_;
  const GradColumns& layout_;
  int64_t part_rows_, parts_, width_;
  int64_t turn_;  // positions outside that a thread takes together
  bool is_in_turn_;
  int64_t stripe_;  // positions of the kept dimension that a thread takes all passes over, or 0
  bool keeps_h_;
  std::unique_ptr<double[]> sums_of_parts_;  // where columns have several
};

}  // namespace

bool are_grad_columns_apart(const MvnGradPlan& plan) {
  if (plan.reduced_rank == 0 || plan.is_empty()) return false;
  const GradColumns layout(plan);
  const bool is_single = layout.fold == 1 && layout.repeat == 1;
  if (is_single && plan.reduced[plan.reduced_rank - 1].x < kLeastApart) return false;
  return std::none_of(layout.reduced, layout.reduced + layout.row_rank,
                      [](const MvnGradAxis& a) { return a.has_parameters(); });
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
