// Joins the parts of cells to states and totals.
#include <algorithm>
#include <bit>

#include "cuda/mvn_grad_join.cuh"
#include "cuda/mvn_grad_part_launch.cuh"

namespace cudml::cuda {
namespace {

GivenValue scale_of(const MvnGradSteps& steps) {
  if (!steps.is_constant || !steps.plan.has_scale) return {};
  return {steps.o.inputs[2], steps.plan.scale_dtype};
}

/// Threads that add up so many parts.
int threads_for(int64_t count) {
  const auto threads = std::bit_ceil(uint64_t(count + 3) / 4);
  return int(std::clamp(threads, uint64_t{32}, uint64_t{kMvnGradPartThreads}));
}

MvnGradPlace step_of_part(const MvnGradPartAxis& a) {
  MvnGradPlace step;
  step.x = a.part;
  step.scale = a.scale;
  step.cell = a.cell;
  return step;
}

}  // namespace

void MvnGradSteps::join(bool has_moments, bool has_sums) const {
  MvnGradPartWalks walks{{}, {}, scale_of(*this), threads_for(axes.per_cell)};
  for (int d = 0; d < axes.rank; ++d) {
    const MvnGradPartAxis& a = axes.axis[d];
    (a.is_kept ? walks.outer : walks.inner).add(a.size, step_of_part(a));
  }
  const MvnGradJoin how{has_moments,       has_sums,     plan.use_mean,
                        plan.use_variance, plan.epsilon, double(plan.cell_size)};
  launch("mvn_grad_cell_join", mvn_grad_cell_join_kernel,
         mvn_grad_geometry(plan.cells, 1, walks.threads), target, walks, how, parts, states);
}

/// A total's elements stand densely: the largest stride is that of the outermost dimension.
void MvnGradSteps::join_totals() const {
  for (int k = 0; k < 2; ++k) {
    const MvnGradTotal& total = plan.totals[k];
    if (!total.is_wanted) continue;
    MvnGradPartAxis sorted[kMaxRank + 2];
    std::copy_n(axes.axis, axes.rank, sorted);
    std::stable_sort(sorted, sorted + axes.rank,
                     [k](const auto& a, const auto& b) { return a.totals[k] > b.totals[k]; });
    MvnGradPartWalks walks{{}, {}, scale_of(*this), threads_for(axes.count / total.count)};
    for (int d = 0; d < axes.rank; ++d)
      (sorted[d].totals[k] ? walks.outer : walks.inner)
          .add(sorted[d].size, step_of_part(sorted[d]));
    launch("mvn_grad_total_join", mvn_grad_total_join_kernel,
           mvn_grad_geometry(total.count, 1, walks.threads), target, walks, result_of(total, o),
           k == 0, plan.kind == MvnGradKind::sums, parts, states);
  }
}

}  // namespace cudml::cuda
