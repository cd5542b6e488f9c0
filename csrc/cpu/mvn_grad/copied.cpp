// Copies of the gradients of a normalization in x's order.
#include "cpu/mvn_grad/copied.h"

#include <algorithm>

#include "cpu/isa/families.h"
#include "cpu/pad/copy.h"
#include "cpu/threads/arena.h"
#include "cpu/threads/parallel.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

/// Elements from one to the next that are not near each other.
constexpr int64_t kLeastApart = 8;

/// All dimensions of a plan.
struct AllAxes {
  MvnGradAxis axis[kMaxRank];
  int rank = 0;

  explicit AllAxes(const MvnGradPlan& plan) {
    for (int d = 0; d < plan.kept_rank; ++d) axis[rank++] = plan.kept[d];
    for (int d = 0; d < plan.reduced_rank; ++d) axis[rank++] = plan.reduced[d];
  }

  Dims dims(int64_t MvnGradAxis::* what) const {
    Dims result;
    for (int d = 0; d < rank; ++d) result.push_back(axis[d].*what);
    return result;
  }

  bool stands_as_x(int64_t MvnGradAxis::* tensor) const {
    return std::all_of(axis, axis + rank, [&](const MvnGradAxis& a) { return a.*tensor == a.x; });
  }

  /// Elements from the first to the last one of x, which has none before the first.
  int64_t span() const {
    int64_t last = 0;
    for (int d = 0; d < rank; ++d) last += (axis[d].size - 1) * axis[d].x;
    return last + 1;
  }

  /// Whether each element of x has a place of its own, by strides that hold each other.
  bool is_apart() {
    std::sort(axis, axis + rank,
              [](const MvnGradAxis& a, const MvnGradAxis& b) { return a.x < b.x; });
    int64_t end = 1;
    for (int d = 0; d < rank; ++d) {
      if (axis[d].size > 1 && axis[d].x < end) return false;
      end += (axis[d].size - 1) * axis[d].x;
    }
    return true;
  }
};

/// Whether a group's innermost elements are packed in x and not in another tensor, or near each
/// other there, which may be one, and apart in x. Of other distances most paths take any.
bool stands_otherwise(const MvnGradPlan& plan, int64_t MvnGradAxis::* tensor) {
  if (plan.reduced_rank == 0) return false;
  const MvnGradAxis& inner = plan.reduced[plan.reduced_rank - 1];
  if (inner.x == 1) return inner.*tensor != 1;
  return inner.x >= kLeastApart && inner.*tensor < kLeastApart;
}

/// The plan of copies that stand as x does.
MvnGradPlan plan_as_x(const MvnGradPlan& plan) {
  MvnGradPlan inner = plan;
  const auto set = [&](MvnGradAxis& a) {
    a.grad = a.x;
    if (plan.wants_dx) a.dx = a.x;
  };
  std::for_each_n(inner.kept, inner.kept_rank, set);
  std::for_each_n(inner.reduced, inner.reduced_rank, set);
  inner.kept_rank = collapse(inner.kept, inner.kept_rank);
  inner.reduced_rank = collapse(inner.reduced, inner.reduced_rank);
  return inner;
}

/// The place of the first path that takes a plan.
int first_of(const MvnGradPlan& plan) {
  return choose::first(mvn_grad_paths(), plan, Machine{num_threads()});
}

}  // namespace

bool fits_copied_grad(const MvnGradPlan& plan) {
  if (plan.is_empty() || !plan.reads_x()) return false;
  if (!stands_otherwise(plan, &MvnGradAxis::grad) &&
      !(plan.wants_dx && stands_otherwise(plan, &MvnGradAxis::dx)))
    return false;
  return AllAxes(plan).is_apart() && first_of(plan_as_x(plan)) < int(mvn_grad_paths().size()) - 1;
}

void run_copied_grad(const MvnGradPlan& plan, const Arrays& arrays) {
  const AllAxes axes(plan);
  const auto size = int64_t(size_of(plan.dtype));
  const Dims sizes = axes.dims(&MvnGradAxis::size), as_x = axes.dims(&MvnGradAxis::x);
  const bool is_grad = !axes.stands_as_x(&MvnGradAxis::grad),
             is_dx = plan.wants_dx && !axes.stands_as_x(&MvnGradAxis::dx);
  const int64_t bytes = (axes.span() * size + 63) / 64 * 64;
  const RoomOfBytes room((int(is_grad) + int(is_dx)) * bytes);
  char* const dx = room.at + (is_grad ? bytes : 0);
  Arrays inner = arrays;
  if (is_grad) {
    copy_elements(size, sizes, arrays.inputs[1], axes.dims(&MvnGradAxis::grad), room.at, as_x);
    inner.inputs[1] = room.at;
  }
  if (is_dx) inner.outputs[0] = dx;
  const MvnGradPlan alike = plan_as_x(plan);
  mvn_grad_paths()[size_t(first_of(alike))].run(alike, inner);
  if (is_dx) copy_elements(size, sizes, dx, as_x, arrays.outputs[0], axes.dims(&MvnGradAxis::dx));
}

}  // namespace cudml::cpu::CUDML_ISA
