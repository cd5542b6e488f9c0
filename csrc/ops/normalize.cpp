// Normalization with given statistics: every check, and the plan.
#include "ops/normalize.h"

#include "ops/activation.h"
#include "ops/mvn_checks.h"

namespace cudml {
namespace {

/// A dtype of the plan and whether there is such a tensor.
void take(const TensorDesc* tensor, bool& exists, Dtype& dtype) {
  exists = tensor != nullptr;
  if (tensor) dtype = tensor->dtype;
}

}  // namespace

NormalizePlan make_plan(const NormalizeDesc& desc, const NormalizeTensors& t, const TensorDesc& y) {
  const TensorDesc& x = *t.x;
  check_normalized(desc.op, x);
  if (t.mean) check_statistic(desc.op, "Mean", x, *t.mean);
  if (t.variance) check_statistic(desc.op, "Variance", x, *t.variance);
  NormalizePlan plan;
  plan.dtype = x.dtype;
  plan.epsilon = checked_epsilon(desc.op, desc.epsilon, x.dtype);
  plan.activation = desc.activation;
  check_activation(desc.op, plan.activation, x.dtype);
  if (t.scale) check_parameter(desc.op, "ScaleTensor", x, *t.scale);
  if (t.bias) check_parameter(desc.op, "BiasTensor", x, *t.bias);
  check_result(desc.op, "OutputTensor", y, x.dtype, "InputTensor's", x.sizes);
  take(t.mean, plan.has_mean, plan.mean_dtype);
  take(t.variance, plan.has_variance, plan.variance_dtype);
  take(t.scale, plan.has_scale, plan.scale_dtype);
  take(t.bias, plan.has_bias, plan.bias_dtype);
  plan.elements = count(x.sizes);
  for (int d = 0; d < x.rank(); ++d)
    if (x.sizes[d] != 1)
      plan.axis[plan.rank++] = {
          x.sizes[d],
          {x.strides[d], y.strides[d], broadcast_stride(t.mean, d), broadcast_stride(t.variance, d),
           broadcast_stride(t.scale, d), broadcast_stride(t.bias, d)}};
  plan.rank = collapse(plan.axis, plan.rank);
  return plan;
}

int64_t NormalizePlan::compulsory_bytes() const {
  if (is_empty()) return 0;
  const auto bytes = [&](Tensor t, Dtype of) {
    return distinct_elements(axis, rank, t) * int64_t(size_of(of));
  };
  return bytes(kX, dtype) + bytes(kY, dtype) + (has_mean ? bytes(kMean, mean_dtype) : 0) +
         (has_variance ? bytes(kVariance, variance_dtype) : 0) +
         (has_scale ? bytes(kScale, scale_dtype) : 0) + (has_bias ? bytes(kBias, bias_dtype) : 0);
}

}  // namespace cudml
