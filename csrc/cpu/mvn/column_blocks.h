// How columns that are packed in memory are cut into blocks, and where the rows of a block stand.
#pragma once

#include <algorithm>
#include <numeric>

#include "cpu/memory/tuning.h"
#include "cpu/mvn/column_layout.h"
#include "cpu/mvn/walk.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

using tuning::mvn::kEvenBytes;
using tuning::mvn::kFarColumns;
using tuning::mvn::kFewColumns;
using tuning::mvn::kFewestWideBlocks;
using tuning::mvn::kMostColumns;
constexpr int64_t kSampleRows = 16;  // that the pivots are guessed from

/// The blocks of a plan. Their rows are `repeat` rows of the plan each, but for the last one: as
/// many as make up a long row where columns are packed, which the step from a row to the next one
/// tells. Wherever they stand, the sums of a group depend on that step, not on how many columns
/// are its neighbours.
struct Blocks {
  /// Up to `width` columns of one position of the outer kept dimensions.
  struct Block {
    Offsets origin;
    int64_t width;
    int64_t group;  // the number of the first one
  };

  const MvnPlan& plan;
  const GroupColumns layout;
  const bool is_cross;           // rows differ in scale or bias
  int64_t width, across, tasks;  // columns; blocks beside each other; of all positions
  int64_t shift;       // what the first block has less, so that others begin lines in y's first row
  const int64_t step;  // elements of x from a row to the next one
  int64_t rows, repeat = 1, last_repeat;
  int64_t stretch;  // rows between which x and y go on by the same step
  bool is_run;      // and of which one follows the other
  bool is_even;     // or rows stand at equal short distances, and are summed as if they did
  bool is_packed;   // as they do in x

  /// `bytes` are those of an element; after `lead` elements of y a line of memory begins.
  Blocks(const MvnPlan& of, int64_t bytes, int64_t lead)
      : plan(of),
        layout(of),
        is_cross(varies(&MvnAxis::scale) || varies(&MvnAxis::bias)),
        step(inner().x) {
    const int64_t fold = layout.fold(), all = layout.size(), plan_rows = of.group_size / fold;
    const bool is_wide = of.groups * fold >= kFewestWideBlocks * kMostColumns,
               is_far = layout.groups.x > step;
    is_even = !is_cross && layout.reduced_rank == 1 && step >= fold && step * bytes <= kEvenBytes;
    if (is_even) repeat = repeats(plan_rows, bytes);
    const int64_t line = 64 / bytes,
                  unit = fold > 1               ? fold
                         : repeat > 1 || is_far ? 1
                                                : line,
                  // All that comes again beside each other has to fit kMostColumns, too.
        room = repeat > 1 ? kMostColumns / 2 / repeat : kMostColumns,
                  wanted = is_far                  ? std::min(kFarColumns, room)
                           : repeat > 1 || is_wide ? room
                                                   : kFewColumns,
                  most = std::max<int64_t>(wanted / unit, 1) * unit;
    across = (all + most - 1) / most;
    const int64_t even = (all + across - 1) / across;
    width = std::min({(even + unit - 1) / unit * unit, most, all});
    shift = unit == line && fold == 1 && width < all ? (line - lead) % line : 0;
    across = (all + shift + width - 1) / width;
    tasks = of.groups * fold / all * across;
    is_packed = is_even && layout.are_packed(&MvnAxis::x) && step == all && width == all;
    is_run = width == all && do_rows_follow();
    rows = (plan_rows + repeat - 1) / repeat;
    last_repeat = plan_rows - (rows - 1) * repeat;
    stretch = layout.reduced_rank == 1 ? rows : inner().size;
  }

  Block block(int64_t task) const {
    const int64_t begin = task % across * width - shift, first = std::max<int64_t>(begin, 0);
    Offsets origin = Walk(plan.kept, layout.outer_rank, task / across).offsets();
    origin.add(layout.groups, first / layout.fold());
    return {origin, std::min(begin + width, layout.size()) - first,
            task / across * layout.groups.size + first / layout.fold()};
  }

  int64_t groups_of(const Block& b) const { return b.width / layout.fold(); }
  int64_t repeats_of(int64_t row) const { return row == rows - 1 ? last_repeat : repeat; }
  int64_t row_width(const Block& b, int64_t row) const { return b.width * repeats_of(row); }

  /// Elements of x from a row to the next one of its stretch.
  int64_t row_step() const { return step * repeat; }

  int64_t y_step() const { return inner().y; }

  /// Where a row stands.
  Offsets at(const Block& b, int64_t row) const {
    if (layout.reduced_rank != 1)
      return Walk(plan.reduced, layout.reduced_rank, row, b.origin).offsets();
    Offsets offsets = b.origin;
    offsets.add(inner(), row * repeat);
    return offsets;
  }

  /// Calls fn(row, offsets) for rows [first, end) of a block.
  template <class Fn>
  void for_rows(const Block& b, int64_t first, int64_t end, const Fn& fn) const {
    if (layout.reduced_rank == 1) {
      Offsets offsets = at(b, first);
      for (int64_t row = first; row < end; ++row, offsets.add(inner(), repeat)) fn(row, offsets);
      return;
    }
    Walk walk(plan.reduced, layout.reduced_rank, first, b.origin);
    for (int64_t row = first; row < end; ++row, walk.advance()) fn(row, walk.offsets());
  }

  /// A value of each group for each column.
  [[gnu::noinline]] void spread(const Block& b, const float* of_group, float* of_column) const {
    const int64_t fold = layout.fold();
    if (fold == 1)
      std::copy_n(of_group, b.width, of_column);
    else
      for (int64_t g = 0; g < groups_of(b); ++g)
        std::fill_n(of_column + g * fold, fold, of_group[g]);
    for (int64_t k = 1; k < repeat; ++k) std::copy_n(of_column, b.width, of_column + k * b.width);
  }

  /// Adds up the columns of each group, in place.
  [[gnu::noinline]] void join(const Block& b, double* sums) const {
    for (int64_t k = 1; k < repeat; ++k)
      for (int64_t c = 0; c < b.width; ++c) sums[c] += sums[k * b.width + c];
    const int64_t fold = layout.fold();
    if (fold == 1) return;
    for (int64_t g = 0; g < groups_of(b); ++g) {
      double sum = 0;
      for (int64_t c = 0; c < fold; ++c) sum += sums[g * fold + c];
      sums[g] = sum;
    }
  }

 private:
  bool varies(int64_t MvnAxis::* stride) const {
    for (int d = 0; d < layout.reduced_rank; ++d)
      if (plan.reduced[d].*stride) return true;
    return false;
  }

  /// As many rows as make up a long one of whole lines, if there are enough of them.
  int64_t repeats(int64_t plan_rows, int64_t bytes) const {
    const int64_t lines = 64 / std::gcd<int64_t>(64, step * bytes),  // make up whole ones
        enough = (kEvenBytes / (step * bytes) + lines - 1) / lines * lines;
    int64_t n = enough * step <= kMostColumns / 2 ? enough : kEvenBytes / (step * bytes);
    n = std::max<int64_t>(std::min(plan_rows / kSampleRows, n), 1);
    return n > lines ? n - n % lines : n;
  }

  /// The dimension along which rows are next to each other.
  const MvnAxis& inner() const { return plan.reduced[layout.reduced_rank - 1]; }

  bool do_rows_follow() const {
    const int64_t all = layout.size();
    return layout.are_packed(&MvnAxis::x) && layout.are_packed(&MvnAxis::y) && step == all &&
           inner().y == all && !is_cross;
  }
};

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
