// Launches normalization in two phases.
#include <algorithm>

#include "cuda/launch.cuh"
#include "cuda/merge_generic.cuh"
#include "cuda/mvn_launch.cuh"
#include "cuda/normalize_generic.cuh"
#include "cuda/normalize_runs.cuh"
#include "cuda/statistics_kernels.h"
#include "cuda/statistics_results.cuh"

namespace cudml::cuda {
namespace {

/// A thread for each of so many items.
Geometry over(int64_t items) {
  constexpr int64_t kMostBlocks = int64_t{1} << 16;
  const int64_t blocks = (items + kTwoPhaseThreads - 1) / kTwoPhaseThreads;
  return {uint32_t(std::min(blocks, kMostBlocks)), uint32_t(kTwoPhaseThreads)};
}

/// Prepares the cells' statistics at the beginning of the workspace.
template <class A>
Normalizer<A>* prepare(const NormalizePlan& plan, const NormalizeCells& cells, const Operands& o,
                       const Target& target) {
  auto* const prepared = static_cast<Normalizer<A>*>(target.workspace);
  launch("normalize_cell", normalize_cell_kernel<A>, over(cells.count), target,
         GivenCells(plan, cells, o), prepared, static_cast<RunCell*>(nullptr));
  return prepared;
}

void normalize_runs(const NormalizePlan& plan, const Choice& choice, const Operands& o,
                    const Target& target) {
  const NormalizeCells cells(plan, true);
  auto* const prepared = static_cast<RunCell*>(target.workspace);
  launch("normalize_cell", normalize_cell_kernel<float>, over(cells.count), target,
         GivenCells(plan, cells, o), static_cast<Normalizer<float>*>(nullptr), prepared);
  visit(plan.dtype, MvnTileTypes{}, [&]<class T>() {
    launch(choice.name, normalize_runs_kernel<T>, choice.geometry, target,
           NormalizeRuns<T>(plan, NormalizeSheets(plan), cells, o), prepared);
  });
}

void normalize_any(const NormalizePlan& plan, const Choice& choice, const Operands& o,
                   const Target& target) {
  const NormalizeCells cells(plan);
  visit(plan.dtype, FloatTypes{}, [&]<class T>() {
    using A = Acc<T>;
    const Normalizer<A>* prepared =
        are_cells_shared(plan, cells) ? prepare<A>(plan, cells, o, target) : nullptr;
    launch(choice.name, normalize_kernel<T>, choice.geometry, target,
           NormalizeArgs<T>(plan, cells, o), prepared);
  });
}

}  // namespace

void statistics(const StatisticsPlan& plan, const Choice& choice, const Operands& o,
                const Target& target) {
  if (plan.is_empty()) return;
  void* moments = nullptr;
  if (plan.group_size > 0) {
    const MvnPlan groups = statistics_groups(plan);
    const MvnKernel kernel = normalization_of(StatisticsKernel(choice.kernel), groups);
    moments = at_byte<char>(target.workspace,
                            choice.geometry.workspace_bytes - mvn_statistics_bytes(groups));
    mvn_groups(groups, {int(kernel), choice.name, choice.geometry},
               {o.inputs[0], nullptr, nullptr, nullptr, moments}, target);
  }
  visit(statistics_dtype(plan.dtype), Types<float, double>{}, [&]<class A>() {
    launch("statistics_store", statistics_store_kernel<A>, over(plan.groups), target,
           StatisticsResults(plan, o), static_cast<const Moments<A>*>(moments));
  });
}

void mvn_statistics(const MvnPlan& plan, const Operands& o, const void* moments,
                    const Target& target) {
  visit(statistics_dtype(plan.dtype), Types<float, double>{}, [&]<class A>() {
    launch("mvn_statistics", statistics_store_kernel<A>, over(plan.groups), target,
           StatisticsResults(plan, o), static_cast<const Moments<A>*>(moments));
  });
}

void merge(const MergePlan& plan, const Choice& choice, const Operands& o, const Target& target) {
  if (plan.is_empty()) return;
  visit(plan.dtype, Types<float, double>{}, [&]<class T>() {
    launch("merge", merge_kernel<T>, choice.geometry, target, MergeArgs<T>(plan, o));
  });
}

void normalize(const NormalizePlan& plan, const Choice& choice, const Operands& o,
               const Target& target) {
  if (plan.is_empty()) return;
  const auto kernel = NormalizeKernel(choice.kernel);
  if (kernel == NormalizeKernel::runs) return normalize_runs(plan, choice, o, target);
  if (kernel == NormalizeKernel::generic) return normalize_any(plan, choice, o, target);
  const MvnPlan groups = normalize_groups(plan);
  const MvnPointers p{o.inputs[0], o.inputs[3], o.inputs[4], o.outputs[0], nullptr};
  const NormalizeCells cells(plan);
  const void* normalizers = nullptr;
  visit(statistics_dtype(plan.dtype), Types<float, double>{},
        [&]<class A>() { normalizers = prepare<A>(plan, cells, o, target); });
  if (kernel == NormalizeKernel::columns)
    mvn_column_apply(groups, p, normalizers, target);
  else
    mvn_split_apply(groups, choice.geometry, p, normalizers, target);
}

}  // namespace cudml::cuda
