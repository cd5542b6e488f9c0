// Launches the gradients of normalization.
#include <algorithm>
#include <numeric>
#include <span>

#include "cuda/mvn_grad_launch.cuh"
#include "cuda/mvn_grad_row_totals.cuh"
#include "cuda/mvn_grad_rows.cuh"

namespace cudml::cuda {
namespace {

Geometry over(int64_t items) { return mvn_grad_geometry(items, kMvnGradThreads, kMvnGradThreads); }

/// A total's elements are numbered as they are kept: where x is broadcast that may be another order
/// than the one of all dimensions.
MvnGradTerms terms_of(const MvnGradPlan& plan, int k, const MvnGradCut& cut) {
  const MvnGradDimensions all = mvn_grad_dimensions(plan);
  MvnGradTerms terms{{}, {}, cut.lanes, cut.tiles, cut.parts, plan.kind == MvnGradKind::sums};
  int order[kMaxRank];
  std::iota(order, order + all.rank, 0);
  std::stable_sort(order, order + all.rank,
                   [&](int a, int b) { return all.axis[a].totals[k] > all.axis[b].totals[k]; });
  for (const int d : std::span(order, size_t(all.rank))) {
    MvnGradWalk& walk = all.axis[d].totals[k] ? terms.elements : terms.terms;
    walk.add(all.axis[d].size, step_of(all.axis[d], all.cell[d]));
  }
  return terms;
}

/// What the blocks add up of a total, or of both.
template <class T>
void launch_parts(const MvnGradPlan& plan, const MvnGradArgs<T>& args, const Operands& o, int k,
                  const MvnGradState<Acc<T>>* states, Total<Acc<T>>* const (&parts)[2],
                  const Target& target) {
  const MvnGradCut cut = mvn_grad_cut(plan, k);
  const Geometry geometry = over(cut.tiles * cut.parts * kMvnGradThreads);
  if constexpr (!std::is_same_v<T, double>)
    if (cut.is_along_rows)
      return launch("mvn_grad_row_total", mvn_grad_row_total_kernel<T>, geometry, target, args,
                    MvnGradRowTotals(plan, o, cut), states, parts[0], parts[1]);
  launch("mvn_grad_total", mvn_grad_total_kernel<T>, geometry, target, args, terms_of(plan, k, cut),
         states, parts[0], parts[1]);
}

/// Both totals in one pass where they are sums over the same dimensions.
template <class T>
void launch_totals(const MvnGradPlan& plan, const MvnGradArgs<T>& args, const Operands& o,
                   const MvnGradState<Acc<T>>* states, const Target& target) {
  using A = Acc<T>;
  const MvnGradWorkspace workspace = mvn_grad_workspace(plan);
  const bool are_alike = are_totals_alike(plan);
  MvnGradTotalParts<A> totals[2] = {};
  int64_t elements = 0;
  for (int k = 0; k < 2; ++k) {
    const MvnGradTotal& total = plan.totals[k];
    if (!total.is_wanted) continue;
    const int64_t part_count = mvn_grad_cut(plan, k).parts;
    Total<A>* parts[2];
    for (int i = 0; i < 2; ++i)
      parts[i] =
          i == k || are_alike ? at_byte<Total<A>>(target.workspace, workspace.parts[i]) : nullptr;
    if (part_count && (k == 0 || !are_alike)) launch_parts(plan, args, o, k, states, parts, target);
    totals[k] = {result_of(total, o), parts[k], part_count};
    elements += total.count;
  }
  if (elements > 0)
    launch("mvn_grad_join", mvn_grad_join_kernel<A>, over(elements * kMvnGradJoinLanes), target,
           totals[0], totals[1]);
}

/// States, where totals follow or all of them is given, and dx.
template <class T>
void launch_rows(const MvnGradPlan& plan, const Choice& choice, const MvnGradArgs<T>& args,
                 const Operands& o, MvnGradState<Acc<T>>* states, const Target& target) {
  const bool are_known = !plan.has_own_statistics();
  if (are_known) mvn_grad_given(plan, o, states, target);
  if (are_known && !plan.wants_dx) return;
  if constexpr (!std::is_same_v<T, double>)
    launch("mvn_grad_row", mvn_grad_row_kernel<T>, choice.geometry, target, args,
           MvnGradCells(plan, o), MvnGradRowShape(plan, o), are_known,
           are_known || plan.has_totals() ? states : nullptr);
}

/// States, then dx.
template <class T>
void launch_generic(const MvnGradPlan& plan, const Choice& choice, const MvnGradArgs<T>& args,
                    const Operands& o, MvnGradState<Acc<T>>* states, const Target& target) {
  launch("mvn_grad_state", mvn_grad_state_kernel<T>, choice.geometry, target, args,
         MvnGradCells(plan, o), states);
  if (!plan.wants_dx) return;
  const MvnGradDimensions all = mvn_grad_dimensions(plan);
  MvnGradWalk walk;
  for (int d = 0; d < all.rank; ++d) walk.add(all.axis[d].size, step_of(all.axis[d], all.cell[d]));
  launch("mvn_grad_apply", mvn_grad_apply_kernel<T>, over(walk.count), target, args, walk, states);
}

}  // namespace

void mvn_grad_given(const MvnGradPlan& plan, const Operands& o, void* states,
                    const Target& target) {
  MvnGradCells cells(plan, o);
  cells.has_own_statistics = cells.has_own_sums = false;
  visit(plan.dtype, FloatTypes{}, [&]<class T>() {
    launch("mvn_grad_state", mvn_grad_state_kernel<T>, over(plan.cells), target,
           MvnGradArgs<T>(plan, o), cells, static_cast<MvnGradState<Acc<T>>*>(states));
  });
}

void mvn_grad_totals(const MvnGradPlan& plan, const Operands& o, const void* states,
                     const Target& target) {
  visit(plan.dtype, FloatTypes{}, [&]<class T>() {
    launch_totals<T>(plan, MvnGradArgs<T>(plan, o), o,
                     static_cast<const MvnGradState<Acc<T>>*>(states), target);
  });
}

void mvn_grad(const MvnGradPlan& plan, const Choice& choice, const Operands& o,
              const Target& target) {
  if (choice.kernel == int(MvnGradKernel::pieces) && !plan.is_empty())
    return mvn_grad_on_pieces(plan, choice, o, target);
  if (choice.kernel == int(MvnGradKernel::columns) && !plan.is_empty())
    return mvn_grad_on_columns(plan, choice, o, target);
  visit(plan.dtype, FloatTypes{}, [&]<class T>() {
    using A = Acc<T>;
    static_assert(sizeof(MvnGradState<A>) == 5 * sizeof(A));
    const MvnGradArgs<T> args(plan, o);
    auto* const states = static_cast<MvnGradState<A>*>(target.workspace);
    if (!plan.is_empty()) {
      if (choice.kernel == int(MvnGradKernel::row))
        launch_rows<T>(plan, choice, args, o, states, target);
      else
        launch_generic<T>(plan, choice, args, o, states, target);
    }
    launch_totals<T>(plan, args, o, states, target);
  });
}

}  // namespace cudml::cuda
