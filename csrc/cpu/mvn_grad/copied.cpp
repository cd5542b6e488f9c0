// Copies of the gradients of a normalization in x's order.
#include "cpu/mvn_grad/copied.h"

#include <algorithm>

#include "cpu/isa/families.h"
#include "cpu/mvn_grad/column_layout.h"
#include "cpu/pad/copy.h"
#include "cpu/threads/arena.h"
#include "cpu/threads/parallel.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

/// All dimensions of a plan, the kept ones first.
template <class Axis>
struct AllAxes {
  Axis* axis[kMaxRank];
  int rank = 0;

  template <class Plan>
  explicit AllAxes(Plan& plan) {
    for (int d = 0; d < plan.kept_rank; ++d) axis[rank++] = &plan.kept[d];
    for (int d = 0; d < plan.reduced_rank; ++d) axis[rank++] = &plan.reduced[d];
  }

  Dims dims(int64_t MvnGradAxis::* what) const {
    Dims result;
    for (int d = 0; d < rank; ++d) result.push_back(axis[d]->*what);
    return result;
  }

  /// Into x's order, where each element of x has a place of its own by strides that hold each
  /// other. Elsewhere a group stays together: what kept dimensions of x share its places with says
  /// nothing of it.
  void sort() {
    AllAxes sorted = *this;
    std::stable_sort(sorted.axis, sorted.axis + rank,
                     [](const Axis* a, const Axis* b) { return a->x > b->x; });
    int64_t end = 1;
    for (int d = rank - 1; d >= 0; --d) {
      if (sorted.axis[d]->x < end) return;
      end += (sorted.axis[d]->size - 1) * sorted.axis[d]->x;
    }
    *this = sorted;
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

/// Which gradients are copied. dx alone says nothing of grad: a new dx is as dense as x is not, and
/// how far its elements are apart then depends on how many groups there are.
struct Copies {
  bool is_grad, is_dx;
  MvnGradPlan plan;  // with the copies' strides: dense, in x's order

  explicit Copies(const MvnGradPlan& given)
      : is_grad(stands_otherwise(given, &MvnGradAxis::grad)),
        is_dx(given.wants_dx && (is_grad || stands_otherwise(given, &MvnGradAxis::dx))),
        plan(given) {
    AllAxes<MvnGradAxis> axes(plan);
    axes.sort();
    int64_t stride = 1;
    for (int d = axes.rank - 1; d >= 0; --d) {
      MvnGradAxis& a = *axes.axis[d];
      if (is_grad) a.grad = stride;
      if (is_dx) a.dx = stride;
      stride *= a.size;
    }
    is_grad = is_grad && differ(given, &MvnGradAxis::grad);
    is_dx = is_dx && differ(given, &MvnGradAxis::dx);
  }

  /// The plan with as few dimensions as there can be.
  MvnGradPlan collapsed() const {
    MvnGradPlan result = plan;
    result.kept_rank = collapse(result.kept, result.kept_rank);
    result.reduced_rank = collapse(result.reduced, result.reduced_rank);
    return result;
  }

 private:
  bool differ(const MvnGradPlan& given, int64_t MvnGradAxis::* tensor) const {
    const auto is_same = [=](const MvnGradAxis& a, const MvnGradAxis& b) {
      return a.*tensor == b.*tensor;
    };
    return !std::equal(plan.kept, plan.kept + plan.kept_rank, given.kept, is_same) ||
           !std::equal(plan.reduced, plan.reduced + plan.reduced_rank, given.reduced, is_same);
  }
};

/// The place of the first path that takes a plan.
int first_of(const MvnGradPlan& plan) {
  return choose::first(mvn_grad_paths(), plan, Machine{num_threads()});
}

}  // namespace

bool fits_copied_grad(const MvnGradPlan& plan) {
  if (plan.is_empty() || !plan.reads_x()) return false;
  const Copies copies(plan);
  return (copies.is_grad || copies.is_dx) &&
         first_of(copies.collapsed()) < int(mvn_grad_paths().size()) - 1;
}

void run_copied_grad(const MvnGradPlan& plan, const Arrays& arrays) {
  const Copies copies(plan);
  const AllAxes<const MvnGradAxis> axes(plan), as_x(copies.plan);
  const auto size = int64_t(size_of(plan.dtype));
  const Dims sizes = axes.dims(&MvnGradAxis::size);
  const int64_t bytes = (plan.cells * plan.cell_size * size + 63) / 64 * 64;
  const RoomOfBytes room((int(copies.is_grad) + int(copies.is_dx)) * bytes);
  char* const dx = room.at + (copies.is_grad ? bytes : 0);
  Arrays inner = arrays;
  if (copies.is_grad) {
    copy_elements(size, sizes, arrays.inputs[1], axes.dims(&MvnGradAxis::grad), room.at,
                  as_x.dims(&MvnGradAxis::grad));
    inner.inputs[1] = room.at;
  }
  if (copies.is_dx) inner.outputs[0] = dx;
  const MvnGradPlan alike = copies.collapsed();
  mvn_grad_paths()[size_t(first_of(alike))].run(alike, inner);
  if (copies.is_dx)
    copy_elements(size, sizes, dx, as_x.dims(&MvnGradAxis::dx), arrays.outputs[0],
                  axes.dims(&MvnGradAxis::dx));
}

}  // namespace cudml::cpu::CUDML_ISA
