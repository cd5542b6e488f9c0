// Launches normalization in two phases.
#include <algorithm>

#include "cuda/launch.cuh"
#include "cuda/merge_generic.cuh"
#include "cuda/mvn_launch.cuh"
#include "cuda/normalize_generic.cuh"
#include "cuda/statistics_generic.cuh"

namespace cudml::cuda {
namespace {

/// A thread for each of so many items.
Geometry over(int64_t items) {
  constexpr int64_t kMostBlocks = int64_t{1} << 16;
  const int64_t blocks = (items + kTwoPhaseThreads - 1) / kTwoPhaseThreads;
  return {uint32_t(std::min(blocks, kMostBlocks)), uint32_t(kTwoPhaseThreads)};
}

/// Where the statistics of cells stand.
StridedWalk<2> walk_of(const NormalizeCells& cells) {
  StridedWalk<2> walk;
  for (int d = 0; d < cells.rank; ++d)
    walk.add({cells.size[d], {cells.mean[d], cells.variance[d]}});
  return walk;
}

}  // namespace

void statistics(const StatisticsPlan& plan, const Choice& choice, const Operands& o,
                const Target& target) {
  if (plan.is_empty()) return;
  visit(plan.dtype, FloatTypes{}, [&]<class T>() {
    using A = Acc<T>;
    static_assert(sizeof(Moments<A>) == 32);
    const StatisticsArgs<T> args(plan, o);
    auto* const parts = static_cast<Moments<A>*>(target.workspace);
    launch("statistics_part", statistics_part_kernel<T>, choice.geometry, target, args, parts);
    if (args.parts > 1)
      launch("statistics_join", statistics_join_kernel<A>, over(plan.groups), target, args.results,
             parts, args.parts);
  });
}

void mvn_statistics(const MvnPlan& plan, const Operands& o, const void* moments,
                    const Target& target) {
  visit(statistics_dtype(plan.dtype), Types<float, double>{}, [&]<class A>() {
    launch("mvn_statistics", statistics_join_kernel<A>, over(plan.groups), target,
           StatisticsResults(plan, o), static_cast<const Moments<A>*>(moments), int64_t{1});
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
  const NormalizeCells cells(plan);
  visit(plan.dtype, FloatTypes{}, [&]<class T>() {
    using A = Acc<T>;
    const NormalizeArgs<T> args(plan, cells, o);
    Normalizer<A>* prepared = nullptr;
    if (are_cells_shared(plan, cells)) {
      prepared = static_cast<Normalizer<A>*>(target.workspace);
      launch("normalize_cell", normalize_cell_kernel<A>, over(cells.count), target, args.given,
             walk_of(cells), prepared);
    }
    launch("normalize", normalize_kernel<T>, choice.geometry, target, args, prepared);
  });
}

}  // namespace cudml::cuda
