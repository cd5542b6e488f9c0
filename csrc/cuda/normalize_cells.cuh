// What many elements share where statistics are given, prepared once.
#pragma once

#include "core/operands.h"
#include "cuda/given_value.cuh"
#include "cuda/grid.cuh"
#include "cuda/mvn_two_phase_kernels.h"
#include "cuda/normalize_kernels.h"
#include "cuda/strided_walk.cuh"
#include "math/given.h"

namespace cudml::cuda {

struct GivenStatistics {
  GivenValue mean, variance;  // without data where they are absent
  double epsilon;

  GivenStatistics(const NormalizePlan& plan, const Operands& o)
      : mean{o.inputs[1], plan.mean_dtype},
        variance{o.inputs[2], plan.variance_dtype},
        epsilon(plan.epsilon) {}

  template <class A>
  __device__ Normalizer<A> at(int64_t mean_at, int64_t variance_at) const {
    Normalizer<A> normal;
    if (mean.data) split_mean(mean.at(mean_at), normal.pivot, normal.delta);
    if (variance.data) normal.factor = factor_of<A>(variance.at(variance_at), epsilon);
    return normal;
  }
};

/// A cell's statistics with its scale and bias, two accesses.
struct alignas(16) RunCell {
  Normalizer<float> normal;
  float scale, bias;
};
static_assert(sizeof(RunCell) == kRunCellBytes);

/// What cells are made of.
struct GivenCells {
  GivenStatistics statistics;
  GivenValue scale, bias;
  StridedWalk<NormalizeCells::kTensors> walk;

  GivenCells(const NormalizePlan& plan, const NormalizeCells& cells, const Operands& o)
      : statistics(plan, o),
        scale{o.inputs[3], plan.scale_dtype},
        bias{o.inputs[4], plan.bias_dtype},
        walk(cells.axis, cells.rank) {}
};

/// All that elements share, one after the other: statistics, or with scale and bias.
template <class A>
__global__ __launch_bounds__(kTwoPhaseThreads) void normalize_cell_kernel(const GivenCells given,
                                                                          Normalizer<A>* prepared,
                                                                          RunCell* runs) {
  for (int64_t i = thread_in_grid(); i < given.walk.count; i += threads_in_grid()) {
    const auto at = given.walk.at(i);
    const auto normal =
        given.statistics.at<A>(at[NormalizeCells::kMean], at[NormalizeCells::kVariance]);
    if (prepared) prepared[i] = normal;
    if constexpr (std::is_same_v<A, float>) {
      if (!runs) continue;
      const double scale = given.scale.data ? given.scale.at(at[NormalizeCells::kScale]) : 1;
      const double bias = given.bias.data ? given.bias.at(at[NormalizeCells::kBias]) : 0;
      runs[i] = {normal, float(scale), float(bias)};
    }
  }
}

}  // namespace cudml::cuda
