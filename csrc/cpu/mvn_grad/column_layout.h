// How a plan's columns lie: which of its dimensions run along a row, and which tell rows apart.
#pragma once

#include <algorithm>

#include "cpu/memory/tuning.h"
#include "cpu/mvn_grad/walk.h"
#include "cpu/simd/vector.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

/// Elements from one to the next of a cell whose elements stand apart, not near each other.
constexpr int64_t kLeastApart = 8;

/// Cells: positions [begin, end) of the kept dimension along rows, at positions [outer, outer_end)
/// of those outside.
struct CellRange {
  int64_t outer, outer_end, begin, end;

  int64_t outers() const { return outer_end - outer; }
  int64_t each() const { return end - begin; }
};

/// Columns are the fastest kept dimension, or that together with a short reduced one inside it
/// (channels of a group): `fold` neighbours then belong to one cell. Where positions of the next
/// reduced dimension are so near to each other that these are few, a row is several positions: its
/// columns are those of one, `unit` of them, `repeat` times. They are gathered where they do not
/// follow each other, since a cell's bits may not depend on what stands between its elements.
struct GradColumns {
  MvnGradAxis kept{}, folded{}, repeated{};
  int64_t fold = 1, unit = 1, repeat = 1, columns = 1;
  bool is_gathered = false;
  int64_t rows = 1, outer = 1;  // of a cell; positions of the kept dimensions outside
  int row_rank = 0, outer_rank = 0;
  MvnGradAxis reduced[kMaxRank];  // that tell rows apart

  static constexpr int64_t kMostFold = tuning::mvn_grad::kMostFold;
  static constexpr int64_t kMostShared = tuning::mvn_grad::kMostSharedFold;
  static constexpr int64_t kFewestPieces = tuning::mvn_grad::kFewestPieces;

  explicit GradColumns(const MvnGradPlan& plan)
      : row_rank(plan.reduced_rank), outer_rank(plan.kept_rank) {
    if (is_folded(plan)) {
      folded = plan.reduced[--row_rank];
      fold = folded.size;
    }
    rows = plan.cell_size / fold;
    std::copy_n(plan.reduced, row_rank, reduced);
    if (row_rank > 0) repeat_positions();
    if (outer_rank > 0 && is_row_of(plan, plan.kept[outer_rank - 1]))
      kept = plan.kept[--outer_rank];
    unit = kept.size * fold;
    columns = unit * repeat;
    outer = plan.cells / kept.size;
    is_gathered = repeat > 1 && !is_packed(plan, repeated, unit);
  }

  static bool is_packed(const MvnGradPlan& plan, const MvnGradAxis& a, int64_t step) {
    return a.x == step && a.grad == step && (a.dx == step || !plan.wants_dx);
  }

  /// Whether a cell consists of packed pieces, several of which have their elements' scale, bias
  /// or totals in common, or short ones apart from each other.
  static bool is_folded(const MvnGradPlan& plan) {
    if (plan.reduced_rank < 2) return false;
    const MvnGradAxis& inner = plan.reduced[plan.reduced_rank - 1];
    if (!is_packed(plan, inner, 1)) return false;
    if (inner.has_parameters() && inner.size <= kMostShared &&
        plan.cell_size / inner.size >= kFewestPieces)
      return true;
    return inner.size <= kMostFold && plan.reduced[plan.reduced_rank - 2].x != inner.size;
  }

  /// Of rows that follow each other along one dimension, packed, `n` as one. Columns are counted on
  /// through all rows.
  GradColumns joined(int64_t n) const {
    GradColumns to = *this;
    MvnGradAxis& inner = to.reduced[0];
    if (repeat == 1) to.repeated = inner;
    to.repeat = to.repeated.size = repeat * n;
    to.columns = columns * n;
    to.rows = inner.size = rows / n;
    for (int64_t* along : {&inner.x, &inner.grad, &inner.dx}) *along *= n;
    return to;
  }

  CellRange all() const { return {0, outer, 0, kept.size}; }

  /// Where column c stands, from the row's beginning.
  GradOffsets at(int64_t c) const {
    GradOffsets offsets;
    offsets.add(repeated, c / unit);
    offsets.add(kept, c % unit / fold);
    offsets.add(folded, c % fold);
    return offsets;
  }

  /// Calls fn(c, count, i) for columns [first, first + n) of cells that have one each, as many at a
  /// time as follow each other: c counts from 0, i along the kept dimension.
  template <class Fn>
  void for_runs(int64_t first, int64_t n, const Fn& fn) const {
    int64_t i = first % unit;
    for (int64_t c = 0, count; c < n; c += count, i = 0) {
      count = std::min(unit - i, n - c);
      fn(c, count, i);
    }
  }

  /// Calls fn(c, count, i, f) for columns [first, first + n), as many of a cell at a time as follow
  /// each other: c counts from 0, i along the kept dimension and f along the folded one.
  template <class Fn>
  void for_cells(int64_t first, int64_t n, const Fn& fn) const {
    int64_t i = first % unit / fold, f = first % fold;
    for (int64_t c = 0, count; c < n; c += count) {
      count = std::min(fold - f, n - c);
      fn(c, count, i, f);
      f = 0;
      if (++i == kept.size) i = 0;
    }
  }

 private:
  /// Whether a kept dimension runs along rows: packed, and no longer than from one position to the
  /// next where several of these are in one. Elements that overlap may make it so.
  bool is_row_of(const MvnGradPlan& plan, const MvnGradAxis& a) const {
    return is_packed(plan, a, fold) && (repeat == 1 || a.size * fold <= repeated.x);
  }

  /// Puts positions of the inner dimension side by side, as many as divide it. A block has all.
  /// They share what a cell has.
  void repeat_positions() {
    using namespace tuning::mvn_grad;
    static_assert(kMostRepeated <= kGradColumns);
    MvnGradAxis& inner = reduced[row_rank - 1];
    const int64_t step = inner.x;
    if (step < 2 || step >= kNearPositions || step < fold || inner.has_parameters()) return;
    int64_t n = std::min(kMostRepeated / step, rows / kFewestRepeatedRows);
    while (n > 1 && inner.size % n != 0) --n;
    if (n < 2 || n * step < kLeastRepeated) return;
    repeat = n;
    rows /= n;
    repeated = inner;
    repeated.size = n;
    inner.size /= n;
    for (int64_t* along : {&inner.x, &inner.grad, &inner.dx}) *along *= n;
    if (inner.size == 1 && row_rank > 1) --row_rank;
  }
};

/// Puts a value into n elements, and by whole vectors into some behind them.
template <class A>
inline void fill_beyond(A* to, int64_t n, A value) {
  for (int64_t i = 0; i < n; i += kLanes<A>) store_vector(to + i, all_lanes(value));
}

/// Where the columns of a gathered row stand in each tensor, from the row's beginning; of a tensor
/// that is absent all at the same place.
struct GatheredColumns {
  static constexpr int64_t kMost = tuning::mvn_grad::kMostRepeated;
  int64_t x[kMost] = {}, grad[kMost] = {}, dx[kMost] = {};

  GatheredColumns(const GradColumns& layout, bool has_x) {
    if (!layout.is_gathered) return;
    for (int64_t c = 0; c < layout.columns; ++c) {
      const GradOffsets at = layout.at(c);
      if (has_x) x[c] = at.x;
      grad[c] = at.grad;
      dx[c] = at.dx;
    }
  }
};

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
