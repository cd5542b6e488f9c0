// How a plan's columns lie: which of its dimensions run along a row, and which tell rows apart.
#pragma once

#include <algorithm>

#include "cpu/memory/tuning.h"
#include "cpu/mvn_grad/walk.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

/// Columns are the fastest kept dimension, or that together with a short reduced one inside it
/// (channels of a group): `fold` neighbours then belong to one cell.
struct GradColumns {
  MvnGradAxis kept{}, folded{};
  int64_t fold = 1, columns = 1;  // of a row
  int64_t rows = 1, outer = 1;    // of a cell; positions of the kept dimensions outside
  int row_rank = 0, outer_rank = 0;

  static constexpr int64_t kMostFold = tuning::mvn_grad::kMostFold;
  static constexpr int64_t kMostShared = tuning::mvn_grad::kMostSharedFold;
  static constexpr int64_t kFewestPieces = tuning::mvn_grad::kFewestPieces;

  explicit GradColumns(const MvnGradPlan& plan)
      : row_rank(plan.reduced_rank), outer_rank(plan.kept_rank) {
    if (is_folded(plan)) {
      folded = plan.reduced[--row_rank];
      fold = folded.size;
    }
    if (outer_rank > 0 && is_packed(plan, plan.kept[outer_rank - 1], fold))
      kept = plan.kept[--outer_rank];
    columns = kept.size * fold;
    rows = plan.cell_size / fold;
    outer = plan.cells / kept.size;
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
    const bool varies = inner.scale || inner.bias || inner.totals[0] || inner.totals[1];
    if (varies && inner.size <= kMostShared && plan.cell_size / inner.size >= kFewestPieces)
      return true;
    return inner.size <= kMostFold && plan.reduced[plan.reduced_rank - 2].x != inner.size;
  }

  /// Where column c stands, from the row's beginning.
  GradOffsets at(int64_t c) const {
    GradOffsets offsets;
    offsets.add(kept, c / fold);
    offsets.add(folded, c % fold);
    return offsets;
  }
};

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
