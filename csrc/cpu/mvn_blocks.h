// How columns that are packed in memory are cut into blocks, and where the rows of a block stand.
#pragma once

#include <algorithm>

#include "cpu/mvn_layout.h"
#include "cpu/mvn_parts.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

constexpr int64_t kMostColumns = 4096;  // of a block's row
/// Rows of fewer are read in pieces that memory is slow to find; but blocks should be many.
constexpr int64_t kFewColumns = 1024, kFewestWideBlocks = 16;
constexpr int64_t kSampleRows = 16;  // that the pivots are guessed from

/// The blocks of a plan. Their rows are `repeat` rows of the plan each, but for the last one.
struct Blocks {
  /// Up to `width` columns of one position of the outer kept dimensions.
  struct Block {
    Offsets origin;
    int64_t width;
  };

  const MvnPlan& plan;
  const Layout layout;
  const bool is_cross;           // rows differ in scale or bias
  int64_t width, across, tasks;  // columns; blocks beside each other; of all positions
  int64_t rows, repeat = 1, last_repeat;

  /// `bytes` are those of an element, `lanes` elements those of a vector.
  Blocks(const MvnPlan& of, int64_t bytes, int64_t lanes)
      : plan(of), layout(of), is_cross(varies(&MvnAxis::scale) || varies(&MvnAxis::bias)) {
    constexpr int64_t kRepeatBytes = 2048;  // of a row made of several
    const int64_t fold = layout.fold, all = layout.columns.size, plan_rows = of.group_size / fold;
    const bool is_wide = of.groups * fold >= kFewestWideBlocks * kMostColumns;
    const int64_t most = is_wide ? kMostColumns : kFewColumns;
    across = (all + most - 1) / most;
    const int64_t even = (all + across - 1) / across, step = fold > 1 ? fold : lanes;
    width = std::min({(even + step - 1) / step * step, most / step * step, all});
    across = (all + width - 1) / width;
    tasks = of.groups * fold / all * across;
    if (can_repeat())
      repeat =
          std::max<int64_t>(std::min(plan_rows / kSampleRows, kRepeatBytes / (width * bytes)), 1);
    rows = (plan_rows + repeat - 1) / repeat;
    last_repeat = plan_rows - (rows - 1) * repeat;
  }

  Block block(int64_t task) const {
    const int64_t first = task % across * width;
    Offsets origin = Walk(plan.kept, plan.kept_rank - 1, task / across).offsets();
    origin.add(layout.columns, first);
    return {origin, std::min(width, layout.columns.size - first)};
  }

  int64_t groups_of(const Block& b) const { return b.width / layout.fold; }
  int64_t row_width(const Block& b, int64_t row) const {
    return b.width * (row == rows - 1 ? last_repeat : repeat);
  }

  /// Elements of x from a row to the next one, or 0 where that differs.
  int64_t row_step() const { return layout.reduced_rank == 1 ? plan.reduced[0].x * repeat : 0; }

  /// Calls fn(row, offsets) for rows [first, end) of a block.
  template <class Fn>
  void for_rows(const Block& b, int64_t first, int64_t end, const Fn& fn) const {
    if (layout.reduced_rank == 1) {
      Offsets at = b.origin;
      at.add(plan.reduced[0], first * repeat);
      for (int64_t row = first; row < end; ++row, at.add(plan.reduced[0], repeat)) fn(row, at);
      return;
    }
    Walk at(plan.reduced, layout.reduced_rank, first, b.origin);
    for (int64_t row = first; row < end; ++row, at.advance()) fn(row, at.offsets());
  }

 private:
  bool varies(int64_t MvnAxis::* stride) const {
    for (int d = 0; d < layout.reduced_rank; ++d)
      if (plan.reduced[d].*stride) return true;
    return false;
  }

  /// Whether rows that follow each other make up one longer row.
  bool can_repeat() const {
    const MvnAxis& next = plan.reduced[0];
    return layout.reduced_rank == 1 && next.x == layout.columns.size &&
           next.y == layout.columns.size && !is_cross;
  }
};

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
