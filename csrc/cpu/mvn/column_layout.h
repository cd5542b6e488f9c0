// Which of a plan's dimensions are columns: neighbours in memory that belong to several groups.
#pragma once

#include "ops/mvn.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

/// The columns of a plan: its fastest kept dimension, or that together with the reduced one inside
/// it (channels of a group, NHWC), where every tensor walks both as one. One column, or the reduced
/// dimension alone, where groups are further apart than their elements.
struct Layout {
  MvnAxis columns{1, 1, 1, 0, 0};
  int64_t fold = 1;  // neighbours that belong to one group
  int reduced_rank;  // reduced dimensions that tell rows apart
  int outer_rank;    // kept dimensions that tell rows of columns apart

  explicit Layout(const MvnPlan& plan)
      : reduced_rank(plan.reduced_rank), outer_rank(plan.kept_rank) {
    const MvnAxis* const kept = outer_rank > 0 ? &plan.kept[outer_rank - 1] : nullptr;
    if (is_folded(plan)) {
      columns = plan.reduced[--reduced_rank];
      fold = columns.size;
      if (!kept || !joins(*kept, columns)) return;
      columns.size *= kept->size;
      --outer_rank;
    } else if (kept && (reduced_rank == 0 || kept->x < plan.reduced[reduced_rank - 1].x)) {
      columns = *kept;
      --outer_rank;
    }
  }

  /// Whether a group stands in short packed pieces of x, apart from each other.
  static bool is_folded(const MvnPlan& plan) {
    constexpr int64_t kMaxFold = 256;  // longer ones are rows
    if (plan.reduced_rank < 2) return false;
    const MvnAxis *const inner = &plan.reduced[plan.reduced_rank - 1], *const outer = inner - 1;
    return inner->x == 1 && inner->size <= kMaxFold && outer->x != inner->size;
  }

 private:
  static bool joins(const MvnAxis& outer, const MvnAxis& inner) {
    return outer.x == inner.x * inner.size && outer.y == inner.y * inner.size &&
           outer.scale == inner.scale * inner.size && outer.bias == inner.bias * inner.size;
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
