// Which of a plan's dimensions are columns: neighbours in memory that belong to several groups.
#pragma once

#include "ops/mvn.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

/// The columns of a plan: its fastest kept dimension, or that together with the reduced one inside
/// it (channels of a group, NHWC), where every tensor walks both as one.
struct Layout {
  MvnAxis columns;
  int64_t fold = 1;  // neighbours that belong to one group
  int reduced_rank;  // reduced dimensions that tell rows apart

  explicit Layout(const MvnPlan& plan)
      : columns(plan.kept[plan.kept_rank - 1]), reduced_rank(plan.reduced_rank) {
    if (!is_folded(plan)) return;
    const int64_t groups = columns.size;
    columns = plan.reduced[--reduced_rank];
    fold = columns.size;
    columns.size *= groups;
  }

  static bool is_folded(const MvnPlan& plan) {
    constexpr int64_t kMaxFold = 256;  // longer ones are rows
    if (plan.reduced_rank == 0) return false;
    const MvnAxis &outer = plan.kept[plan.kept_rank - 1],
                  &inner = plan.reduced[plan.reduced_rank - 1];
    return inner.size <= kMaxFold && outer.x == inner.x * inner.size &&
           outer.y == inner.y * inner.size && outer.scale == inner.scale * inner.size &&
           outer.bias == inner.bias * inner.size && plan.reduced_rank > 1;
  }

  /// Whether neighbours in x and in y belong to several groups, in rows that suit vectors.
  static bool has_packed_columns(const MvnPlan& plan) {
    constexpr int64_t kFewestColumns = 8;  // unless rows follow each other
    if (plan.kept_rank == 0 || plan.reduced_rank == 0) return false;
    if (!(plan.use_mean || plan.use_variance)) return false;
    const Layout layout(plan);
    if (layout.fold == 1 && plan.reduced[plan.reduced_rank - 1].x == 1) return false;
    const MvnAxis& columns = layout.columns;
    if (columns.x != 1 || columns.y != 1) return false;
    const MvnAxis& next = plan.reduced[0];
    const bool can_repeat = layout.reduced_rank == 1 && next.x == columns.size;
    if (columns.size < kFewestColumns && !can_repeat) return false;
    if (columns.scale == 0 && columns.bias == 0) return true;
    for (int d = 0; d < layout.reduced_rank; ++d)
      if (plan.reduced[d].scale || plan.reduced[d].bias) return false;
    return true;
  }
};

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
