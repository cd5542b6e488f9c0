// Statistics of groups as results, in the type and at the place where they are wanted.
#pragma once

#include "core/operands.h"
#include "cuda/grid.cuh"
#include "cuda/mvn_args.cuh"
#include "cuda/mvn_two_phase_kernels.h"
#include "cuda/strided_walk.cuh"

namespace cudml::cuda {

/// Where groups stand and their statistics go.
struct StatisticsResults {
  StridedWalk<StatisticsPlan::kTensors> groups;
  void* outputs[3];                   // null where one is not wanted
  bool is_wide, is_variance = false;  // which is the third then, rather than m2

  StatisticsResults(const StatisticsPlan& plan, const Operands& o)
      : groups(plan.kept, plan.kept_rank),
        outputs{o.outputs[0], o.outputs[1], o.outputs[2]},
        is_wide(plan.result_dtype == Dtype::float64) {}

  /// Mean and variance beside a normalized result.
  StatisticsResults(const MvnPlan& plan, const Operands& o)
      : outputs{nullptr, plan.has_mean_result ? o.outputs[1] : nullptr,
                plan.has_variance_result ? o.outputs[2] : nullptr},
        is_wide(plan.dtype == Dtype::float64),
        is_variance(true) {
    for (int d = 0; d < plan.statistics_rank; ++d) {
      const auto& axis = plan.statistics[d];
      groups.add({axis.size,
                  {axis.stride[MvnPlan::kX], 0, axis.stride[MvnPlan::kMean],
                   axis.stride[MvnPlan::kVariance]}});
    }
  }

  /// Statistics of nothing are 0.
  template <class A>
  __device__ void put(int64_t group, const Moments<A>& m) const {
    const auto place = groups.at(group);
    const double values[] = {m.n, double(m.pivot) + m.delta, is_variance ? m.m2 / m.n : m.m2};
#pragma unroll
    for (int i = 0; i < 3; ++i) {
      const int64_t at = place[StatisticsPlan::kCount + i];
      if (!outputs[i]) continue;
      if (is_wide)
        static_cast<double*>(outputs[i])[at] = values[i];
      else
        static_cast<float*>(outputs[i])[at] = static_cast<float>(values[i]);
    }
  }
};

/// Groups without elements have no moments: then `moments` is null.
template <class A>
__global__ __launch_bounds__(kTwoPhaseThreads) void statistics_store_kernel(
    const StatisticsResults results, const Moments<A>* moments) {
  for (int64_t g = thread_in_grid(); g < results.groups.count; g += threads_in_grid())
    results.put(g, moments ? moments[g] : Moments<A>{});
}

}  // namespace cudml::cuda
