// Normalization with given statistics, element by element.
#pragma once

#include "cuda/epilogue.cuh"
#include "cuda/normalize_cells.cuh"

namespace cudml::cuda {

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
