// What a cell's elements share: statistics, their own or given, and the means that dx takes off.
#pragma once

#include "core/scalar.h"
#include "cpu/mvn_grad/walk.h"
#include "math/given.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

/// z = ((x - pivot) - delta) * factor; dx = factor * (w - mean_w - z * mean_wz).
template <class A>
struct CellState {
  Normalizer<A> normal;
  A mean_w = 0, mean_wz = 0;
};

inline double read_wide(const void* tensor, Dtype dtype, int64_t at) {
  double value = 0;
  visit(dtype, FloatTypes{},
        [&]<class T>() { value = double(load_as_acc(static_cast<const T*>(tensor)[at])); });
  return value;
}

/// Statistics that are data: the mean with its low part (D-GRAD-18).
template <class A>
Normalizer<A> normalizer_given(const MvnGradPlan& plan, const Operands& o, const GradOffsets& at) {
  Normalizer<A> normal;
  if (plan.use_mean) {
    const double mean = read_wide(o.inputs[4], plan.mean_dtype, at.mean);
    split_mean(mean, normal.pivot, normal.delta);
  }
  if (plan.use_variance) {
    const double variance = read_wide(o.inputs[5], plan.variance_dtype, at.variance);
    normal.factor = factor_of<A>(variance, plan.epsilon);
  }
  return normal;
}

/// The sums that the caller brings, over their count.
template <class A>
void take_sums(const MvnGradPlan& plan, const Operands& o, const GradOffsets& at,
               CellState<A>& state) {
  const double count = read_wide(o.inputs[6], plan.count_dtype, at.count);
  const auto share = [&](int k) {
    return static_cast<A>(read_wide(o.inputs[7 + k], plan.sum_dtypes[k], at.sums[k]) / count);
  };
  if (plan.use_mean) state.mean_w = share(0);
  if (plan.use_variance) state.mean_wz = share(1);
}

/// What can be told of a cell without reading its elements.
template <class A>
CellState<A> state_given(const MvnGradPlan& plan, const Operands& o, const GradOffsets& at) {
  CellState<A> state;
  if (plan.are_given) state.normal = normalizer_given<A>(plan, o, at);
  if (plan.has_sums) take_sums(plan, o, at, state);
  return state;
}

/// Whether scale and bias belong to a cell of one dimension, not to its elements.
inline bool has_own_parameters(const MvnGradPlan& plan) {
  const MvnGradAxis& row = plan.reduced[0];
  return !row.scale && !row.bias && !row.totals[0] && !row.totals[1];
}

/// Whether dx takes z * mean_wz off.
inline bool takes_product(const MvnGradPlan& plan) {
  return plan.use_variance && (plan.has_own_sums() || plan.has_sums);
}

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
