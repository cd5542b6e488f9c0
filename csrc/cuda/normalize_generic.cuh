// Normalization with given statistics, element by element. Where many elements share statistics,
// these are prepared once.
#pragma once

#include "core/operands.h"
#include "cuda/epilogue.cuh"
#include "cuda/grid.cuh"
#include "cuda/mvn_two_phase_kernels.h"
#include "cuda/strided_walk.cuh"
#include "math/given.h"

namespace cudml::cuda {

/// A statistic, read in double.
struct GivenStatistic {
  const void* data = nullptr;
  Dtype dtype = Dtype::float32;

  __device__ double at(int64_t offset) const {
    switch (dtype) {
      case Dtype::float64: return static_cast<const double*>(data)[offset];
      case Dtype::float32: return double(static_cast<const float*>(data)[offset]);
      case Dtype::float16: return double(to_float(static_cast<const Float16*>(data)[offset]));
      default: return double(to_float(static_cast<const BFloat16*>(data)[offset]));
    }
  }
};

struct GivenStatistics {
  GivenStatistic mean, variance;  // without data where they are absent
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

/// All that elements share, one after the other.
template <class A>
__global__ __launch_bounds__(kTwoPhaseThreads) void normalize_cell_kernel(
    const GivenStatistics given, const StridedWalk<2> cells, Normalizer<A>* prepared) {
  for (int64_t i = thread_in_grid(); i < cells.count; i += threads_in_grid()) {
    const auto at = cells.at(i);
    prepared[i] = given.at<A>(at[0], at[1]);
  }
}

template <class T>
struct NormalizeArgs {
  using A = Acc<T>;
  static constexpr int kCell = NormalizePlan::kTensors, kTensors = kCell + 1;

  const T* x;
  T* y;
  Parameter<T> scale, bias;
  Activate<A> activate;
  GivenStatistics given;
  StridedWalk<kTensors> walk;

  NormalizeArgs(const NormalizePlan& plan, const NormalizeCells& cells, const Operands& o)
      : x(static_cast<const T*>(o.inputs[0])),
        y(static_cast<T*>(o.outputs[0])),
        scale(o.inputs[3], plan.scale_dtype, 1),
        bias(o.inputs[4], plan.bias_dtype, 0),
        activate(plan.activation),
        given(plan, o) {
    for (int d = 0; d < plan.rank; ++d) {
      StridedAxis<kTensors> axis{plan.axis[d].size, {}};
      for (int t = 0; t < kCell; ++t) axis.stride[t] = plan.axis[d].stride[t];
      axis.stride[kCell] = cells.stride[d];
      walk.add(axis);
    }
  }
};

/// `prepared` is null where elements read their statistics themselves.
template <class T>
__global__ __launch_bounds__(kTwoPhaseThreads) void normalize_kernel(
    const NormalizeArgs<T> args, const Normalizer<Acc<T>>* prepared) {
  using A = Acc<T>;
  using Plan = NormalizePlan;
  for (int64_t i = thread_in_grid(); i < args.walk.count; i += threads_in_grid()) {
    const auto at = args.walk.at(i);
    const Normalizer<A> normal =
        prepared ? prepared[at[NormalizeArgs<T>::kCell]]
                 : args.given.template at<A>(at[Plan::kMean], at[Plan::kVariance]);
    const A z = normal(load_as_acc(args.x[at[Plan::kX]]));
    A value[1] = {fused(z, args.scale.at(at[Plan::kScale]), args.bias.at(at[Plan::kBias]))};
    args.activate(value);
    args.y[at[Plan::kY]] = store_as<T>(value[0]);
  }
}

}  // namespace cudml::cuda
