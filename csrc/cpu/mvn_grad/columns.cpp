// The gradient of normalization by columns: statistics and sums of all columns strip by strip,
// joined into the cells', then dx in the same order. Where the gradient passes an activation as it
// is, one pass gives all sums.
#include "cpu/mvn_grad/columns.h"

#include <memory>

#include "cpu/memory/tuning.h"
#include "cpu/mvn_grad/column_block.h"
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
        sums_(plan, operands),
        layout_(sums_.layout()),
        parts_((layout_.rows + kPartRows - 1) / kPartRows),
        width_(width_of(layout_.columns)),
        blocks_((layout_.columns + width_ - 1) / width_),
        keeps_h_(keeps_slopes()) {}

  void run() {
    const bool needs_products = plan_.has_totals() || plan_.has_own_sums();
    ColumnWork last{false, needs_products, plan_.wants_dx};
    if (plan_.has_own_statistics()) {
      find_statistics(needs_products && !reads_input(plan_.activation.kind));
      last.products = needs_products && !sums_.are_joined();
    }
    if (plan_.has_own_sums()) {
      if (last.products) take_pass({false, true, false, keeps_h_});
      sums_.find_means();
      last.products = false;
      last.is_kept = keeps_h_;
    }
    if (last.products || last.writes) take_pass(last);
    if (plan_.has_totals()) sums_.add_totals();
  }

 private:
  static constexpr int64_t kPartRows = 256;  // whatever is kept beside: sums must not change by it

  /// Whether h stays where dx will be, if no column is in two tiles: slopes cost more than the
  /// caches, and but for quick ones more than memory.
  bool keeps_slopes() const {
    const Activation& f = plan_.activation;
    const bool has_place = std::is_same_v<T, Acc<T>> && plan_.wants_dx && plan_.has_own_sums() &&
                           (kIsWide || layout_.columns % kTileColumns == 0);
    if (!has_place || layout_.is_gathered) return false;
    if (!reads_input(f.kind) || Gate<float>::suits(f)) return false;
    return plan_.cells * plan_.cell_size <= tuning::mvn_grad::kMostKeptColumns || kIsWide ||
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
  void find_statistics(bool has_products) {
    const ColumnWork work{true, has_products, false};
    if (plan_.use_mean) sums_.guess();
    take_pass(work);
    if (sums_.take_statistics(false)) return;
    take_pass(work);
    sums_.take_statistics(true);
  }

  /// One pass over all rows. Sums of all columns are added up part by part.
  void take_pass(const ColumnWork& work) {
    const int64_t columns = layout_.columns, units = layout_.outer * parts_;
    const bool is_summed[4] = {work.moments, work.moments, work.products, work.products};
    std::unique_ptr<double[]> parts[4];
    for (int k = 0; k < 4; ++k)
      if (is_summed[k]) parts[k].reset(new double[size_t(units * columns)]);
    parallel_for(units * blocks_, plan_.compulsory_bytes(), [&](int64_t begin, int64_t end) {
      const Room<Block> block(plan_, operands_, layout_);
      for (int64_t i = begin; i < end; ++i) {
        checkpoint();
        const int64_t part = i % parts_, b = i / parts_ % blocks_, outer = i / parts_ / blocks_,
                      first = b * width_, row = (outer * parts_ + part) * columns + first;
        const ColumnSpan span{outer, first, std::min(width_, columns - first)};
        if (block->span() != span) block->begin(span, sums_.states());
        run_part(*block, part, work);
        double* to[4];
        for (int k = 0; k < 4; ++k) to[k] = parts[k].get() + (is_summed[k] ? row : 0);
        block->take_sums(work, to);
      }
    });
    for (int k = 0; k < 4; ++k)
      if (is_summed[k]) sums_.add_parts(parts[k].get(), parts_, k);
  }

  void run_part(Block& block, int64_t part, const ColumnWork& work) const {
    block.clear();
    const int64_t end = std::min(layout_.rows, (part + 1) * kPartRows);
    for (int64_t r = part * kPartRows; r < end; r += kStripRows)
      block.run(r, std::min(kStripRows, end - r), work);
  }

  const MvnGradPlan& plan_;
  const Operands& operands_;
  ColumnSums<Acc<T>> sums_;
  const GradColumns& layout_;
  int64_t parts_, width_, blocks_;
  bool keeps_h_;
};

}  // namespace

bool are_grad_columns_apart(const MvnGradPlan& plan) {
  if (plan.reduced_rank == 0 || plan.is_empty()) return false;
  const GradColumns layout(plan);
  const bool is_single = layout.fold == 1 && layout.repeat == 1;
  if (is_single && plan.reduced[plan.reduced_rank - 1].x < 8) return false;
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
