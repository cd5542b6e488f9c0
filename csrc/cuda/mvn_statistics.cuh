// The groups' statistics as results, for calls that ask for them: a pass of their own.
#pragma once

#include "core/operands.h"
#include "cuda/mvn_generic.cuh"
#include "cuda/strided_walk.cuh"

namespace cudml::cuda {

/// Where the statistics of groups go; A is what they are computed in.
template <class A>
struct MvnStatistics {
  StridedWalk<MvnPlan::kStatistics> groups;
  A *mean, *variance;  // null where one is not wanted

  MvnStatistics(const MvnPlan& plan, const Operands& o)
      : groups(plan.statistics, plan.statistics_rank),
        mean(plan.has_mean_result ? static_cast<A*>(o.outputs[1]) : nullptr),
        variance(plan.has_variance_result ? static_cast<A*>(o.outputs[2]) : nullptr) {}

  __device__ void put(int64_t group, const Moments<A>& m) const {
    const auto at = groups.at(group);
    if (mean) mean[at[MvnPlan::kMean]] = static_cast<A>(double(m.pivot) + m.delta);
    if (variance) variance[at[MvnPlan::kVariance]] = static_cast<A>(m.m2 / m.n);
  }
};

template <class T>
__global__ __launch_bounds__(kMvnThreads) void mvn_statistics_kernel(
    const MvnArgs<T> args, const MvnStatistics<Acc<T>> results) {
  for (int64_t g = blockIdx.x; g < args.groups; g += gridDim.x) {
    const Moments<Acc<T>> moments = group_moments(args, args.kept.at_any(g));
    if (threadIdx.x == 0) results.put(g, moments);
  }
}

}  // namespace cudml::cuda
