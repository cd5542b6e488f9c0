// Which of a plan's dimensions are columns: neighbours in memory that belong to several groups.
#pragma once

#include "ops/mvn.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

/// The columns of a plan: its fastest kept dimension, or that together with the reduced one inside
/// it (channels of a group, NHWC), where every tensor walks both as one, else the latter alone.
struct Layout {
  MvnAxis columns{1, 1, 1, 0, 0};  // one, if nothing is kept
  int64_t fold = 1;                // neighbours that belong to one group
  int reduced_rank;                // reduced dimensions that tell rows apart
  int outer_rank;                  // kept dimensions that tell rows of columns apart

  explicit Layout(const MvnPlan& plan)
      : reduced_rank(plan.reduced_rank), outer_rank(plan.kept_rank) {
    const MvnAxis* const kept = outer_rank > 0 ? &plan.kept[outer_rank - 1] : nullptr;
    if (is_folded(plan)) {
      columns = plan.reduced[--reduced_rank];
      fold = columns.size;
      if (!kept || !joins(*kept, columns)) return;
      columns.size *= kept->size;
      --outer_rank;
    } else if (kept) {
      columns = *kept;
      --outer_rank;
    }
  }

  /// Whether a group stands in short packed pieces of x, and what could be as much of other groups
  /// between them. Short pieces that are nearer to each other are rows, unless very short, and so
  /// are few of them: each neighbour of a piece is a column, whose sums are joined at last. Of
  /// float64 they take longer than rows in any case.
  static bool is_folded(const MvnPlan& plan) {
    constexpr int64_t kMostFloats = 256, kMostHalves = 1024, kVeryShort = 16;  // elements
    constexpr int64_t kPieceShare = 3;  // of a piece's elements, from which on pieces are many
    if (plan.reduced_rank < 2) return false;
    const MvnAxis *const inner = &plan.reduced[plan.reduced_rank - 1], *const outer = inner - 1;
    const int64_t most = plan.dtype == Dtype::float32 ? kMostFloats : kMostHalves;
    if (inner->x != 1 || inner->size > most || outer->x == inner->size) return false;
    if (inner->size < kVeryShort) return true;
    const int64_t pieces = plan.group_size / inner->size;
    return outer->x >= 2 * inner->size && kPieceShare * pieces > inner->size &&
           plan.dtype != Dtype::float64;
  }

 private:
  static bool joins(const MvnAxis& outer, const MvnAxis& inner) {
    return outer.x == inner.x * inner.size && outer.y == inner.y * inner.size &&
           outer.scale == inner.scale * inner.size && outer.bias == inner.bias * inner.size;
  }
};

/// The same where tensors may walk both in their own ways: groups beside each other, `inner.size`
/// neighbours of each.
struct GroupColumns {
  MvnAxis inner{1, 1, 1, 0, 0}, groups;
  int reduced_rank, outer_rank;

  explicit GroupColumns(const MvnPlan& plan)
      : reduced_rank(plan.reduced_rank), outer_rank(plan.kept_rank) {
    if (Layout::is_folded(plan)) inner = plan.reduced[--reduced_rank];
    if (outer_rank > 0) groups = plan.kept[--outer_rank];
  }

  int64_t fold() const { return inner.size; }
  int64_t size() const { return inner.size * groups.size; }

  /// Whether a tensor has all of them one after the other.
  bool are_packed(int64_t MvnAxis::* stride) const {
    return (inner.size == 1 || inner.*stride == 1) &&
           (groups.size == 1 || groups.*stride == inner.size);
  }
};

/// Whether the elements of a group, or short pieces of it, stand `least` or more elements apart.
/// How many groups there are and where does not count: the order of additions follows from this.
inline bool are_elements_apart(const MvnPlan& plan, int64_t least) {
  if (plan.reduced_rank == 0 || !(plan.use_mean || plan.use_variance)) return false;
  const int64_t step = plan.reduced[plan.reduced_rank - 1].x;
  return Layout::is_folded(plan) || step >= least || step == 0;
}

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
