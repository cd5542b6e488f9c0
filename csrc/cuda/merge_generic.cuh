// The merge of statistics, element by element.
#pragma once

#include "core/operands.h"
#include "cuda/grid.cuh"
#include "cuda/mvn_two_phase_kernels.h"
#include "cuda/strided_walk.cuh"
#include "math/merged.h"

namespace cudml::cuda {

template <class T>
struct MergeArgs {
  StridedWalk<MergePlan::kTensors> walk;
  const T* in[MergePlan::kInputs];
  T* out[3];

  MergeArgs(const MergePlan& plan, const Operands& o) : walk(plan.axis, plan.rank) {
    for (int t = 0; t < MergePlan::kInputs; ++t) in[t] = static_cast<const T*>(o.inputs[t]);
    for (int t = 0; t < 3; ++t) out[t] = static_cast<T*>(o.outputs[t]);
  }
};

template <class T>
__global__ __launch_bounds__(kTwoPhaseThreads) void merge_kernel(const MergeArgs<T> args) {
  for (int64_t i = thread_in_grid(); i < args.walk.count; i += threads_in_grid()) {
    const auto at = args.walk.at(i);
    const Statistics<T> both = merged<T>({args.in[0][at[0]], args.in[1][at[1]], args.in[2][at[2]]},
                                         {args.in[3][at[3]], args.in[4][at[4]], args.in[5][at[5]]});
    args.out[0][at[6]] = both.count;
    args.out[1][at[7]] = both.mean;
    args.out[2][at[8]] = both.m2;
  }
}

}  // namespace cudml::cuda
