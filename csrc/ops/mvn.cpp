// Mean-variance normalization: every check, and the plan.
#include "ops/mvn.h"

#include <algorithm>

#include "ops/activation.h"
#include "ops/mvn_checks.h"

namespace cudml {

int collapse(MvnAxis* axes, int rank) {
  std::stable_sort(axes, axes + rank, [](const MvnAxis& a, const MvnAxis& b) {
    return a.x != b.x ? a.x > b.x : a.y > b.y;
  });
  const auto can_merge = [](const MvnAxis& outer, const MvnAxis& inner) {
    const auto joins = [&](int64_t MvnAxis::* stride) {
      return outer.*stride == inner.*stride * inner.size;
    };
    return joins(&MvnAxis::x) && joins(&MvnAxis::y) && joins(&MvnAxis::scale) &&
           joins(&MvnAxis::bias);
  };
  int collapsed = 0;
  for (int d = 0; d < rank; ++d) {
    MvnAxis axis = axes[d];
    while (collapsed > 0 && can_merge(axes[collapsed - 1], axis))
      axis.size *= axes[--collapsed].size;
    axes[collapsed++] = axis;
  }
  return collapsed;
}

namespace {

void check_results(const MvnDesc& desc, const TensorDesc& x, const MvnResults& results) {
  check_result(desc.op, "OutputTensor", *results.y, x.dtype, "InputTensor's", x.sizes);
  const Dims sizes = group_sizes(desc.axes, x);
  const auto check_one = [&](const char* field, const TensorDesc* tensor) {
    if (tensor) check_result(desc.op, field, *tensor, statistics_dtype(x.dtype), "", sizes);
  };
  check_one("Mean", results.mean);
  check_one("Variance", results.variance);
}

/// Where the groups' statistics go.
void set_statistics(MvnPlan& plan, const TensorDesc& x, const bool (&reduced)[kMaxRank],
                    const MvnResults& results) {
  plan.has_mean_result = results.mean != nullptr;
  plan.has_variance_result = results.variance != nullptr;
  if (!plan.has_statistics()) return;
  for (int d = 0; d < x.rank(); ++d)
    if (!reduced[d] && x.sizes[d] != 1)
      plan.statistics[plan.statistics_rank++] = {
          x.sizes[d],
          {x.strides[d], results.y->strides[d], broadcast_stride(results.mean, d),
           broadcast_stride(results.variance, d)}};
  plan.statistics_rank = collapse(plan.statistics, plan.statistics_rank);
}

}  // namespace

MvnPlan make_plan(const MvnDesc& desc, const TensorDesc& x, const TensorDesc* scale,
                  const TensorDesc* bias, const MvnResults& results) {
  const TensorDesc& y = *results.y;
  check_normalized(desc.op, x);
  bool reduced[kMaxRank] = {};
  check_axes(desc.op, desc.axes, x, false, reduced);
  MvnPlan plan;
  plan.dtype = plan.scale_dtype = plan.bias_dtype = x.dtype;
  plan.use_mean = desc.use_mean;
  plan.use_variance = desc.use_variance;
  plan.epsilon = checked_epsilon(desc.op, desc.epsilon, x.dtype);
  plan.activation = desc.activation;
  check_activation(desc.op, plan.activation, x.dtype);
  if ((plan.has_scale = scale != nullptr)) {
    check_parameter(desc.op, "ScaleTensor", x, *scale);
    plan.scale_dtype = scale->dtype;
  }
  if ((plan.has_bias = bias != nullptr)) {
    check_parameter(desc.op, "BiasTensor", x, *bias);
    plan.bias_dtype = bias->dtype;
  }
  check_results(desc, x, results);
  if (std::find(x.sizes.begin(), x.sizes.end(), 0) != x.sizes.end()) {
    plan.groups = 0;
    return plan;
  }
  for (int d = 0; d < x.rank(); ++d) {
    // Without statistics there are no groups: the whole tensor is one.
    const bool in_group = reduced[d] || !(plan.use_mean || plan.use_variance);
    (in_group ? plan.group_size : plan.groups) *= x.sizes[d];
    if (x.sizes[d] == 1) continue;
    (in_group ? plan.reduced[plan.reduced_rank++] : plan.kept[plan.kept_rank++]) =
        MvnAxis{x.sizes[d], x.strides[d], y.strides[d], broadcast_stride(scale, d),
                broadcast_stride(bias, d)};
  }
  plan.kept_rank = collapse(plan.kept, plan.kept_rank);
  plan.reduced_rank = collapse(plan.reduced, plan.reduced_rank);
  set_statistics(plan, x, reduced, results);
  return plan;
}

int64_t MvnPlan::compulsory_bytes() const {
  int64_t x = 1, y = 1, scale = 1, bias = 1;
  const auto add = [&](const MvnAxis& axis) {
    y *= axis.size;
    if (axis.x) x *= axis.size;
    if (axis.scale) scale *= axis.size;
    if (axis.bias) bias *= axis.size;
  };
  std::for_each(kept, kept + kept_rank, add);
  std::for_each(reduced, reduced + reduced_rank, add);
  if (groups == 0) return 0;
  return (x + y) * int64_t(size_of(dtype)) +
         (has_scale ? scale * int64_t(size_of(scale_dtype)) : 0) +
         (has_bias ? bias * int64_t(size_of(bias_dtype)) : 0) +
         (int(has_mean_result) + int(has_variance_result)) * groups *
             int64_t(size_of(statistics_dtype(dtype)));
}

}  // namespace cudml
