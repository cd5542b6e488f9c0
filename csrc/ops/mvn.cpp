// Mean-variance normalization: every check, and the plan.
#include "ops/mvn.h"

#include <algorithm>
#include <cmath>

#include "core/layout.h"
#include "ops/activation.h"

namespace cudml {
namespace {

void check_input(const char* op, const TensorDesc& x) {
  check_type(is_float(x.dtype), op, ": InputTensor.DataType is ", name_of(x.dtype),
             "; it must be float32, float16, bfloat16 or float64");
  check(x.rank() >= 1 && x.rank() <= kMaxRank, op, ": DimensionCount is ", x.rank(),
        "; it must be between 1 and ", kMaxRank);
  check_extent(op, "InputTensor", x);
}

/// Which dimensions are reduced.
void check_axes(const MvnDesc& desc, const TensorDesc& x, bool (&reduced)[kMaxRank]) {
  for (int i = 0; i < desc.axes.rank; ++i) {
    const int64_t axis = desc.axes[i];
    check(axis >= 0 && axis < x.rank(), desc.op, ": Axes[", i, "] is ", axis,
          "; it must be between 0 and ", x.rank() - 1, " (InputTensor has ", x.rank(),
          " dimensions)");
    check(!reduced[axis], desc.op, ": Axes[", i, "] is ", axis,
          "; every axis may be named once only");
    check(x.sizes[int(axis)] > 0, desc.op, ": InputTensor.Sizes[", axis,
          "] is 0; a dimension in Axes must not be empty");
    reduced[axis] = true;
  }
}

void check_parameter(const char* op, const char* field, const TensorDesc& x,
                     const TensorDesc& parameter) {
  const bool is_mixed = parameter.dtype == Dtype::float32 &&
                        (x.dtype == Dtype::float16 || x.dtype == Dtype::bfloat16);
  check_type(parameter.dtype == x.dtype || is_mixed, op, ": ", field, ".DataType is ",
             name_of(parameter.dtype), "; it must be InputTensor's, ", name_of(x.dtype),
             size_of(x.dtype) == 2 ? ", or float32" : "");
  check(parameter.rank() == x.rank(), op, ": ", field, ".DimensionCount is ", parameter.rank(),
        "; it must be InputTensor's, ", x.rank());
  for (int d = 0; d < x.rank(); ++d)
    check(parameter.sizes[d] == x.sizes[d] || parameter.sizes[d] == 1, op, ": ", field, ".Sizes[",
          d, "] is ", parameter.sizes[d], "; it must be 1",
          x.sizes[d] == 1 ? "" : join(" or ", x.sizes[d], ", InputTensor's size"));
  check_extent(op, field, parameter);
}

void check_output(const char* op, const TensorDesc& x, const TensorDesc& y) {
  check_type(y.dtype == x.dtype, op, ": OutputTensor.DataType is ", name_of(y.dtype),
             "; it must be InputTensor's, ", name_of(x.dtype));
  check(y.rank() == x.rank(), op, ": OutputTensor.Sizes are ", y.sizes, "; they must be ", x.sizes);
  for (int d = 0; d < x.rank(); ++d)
    check(y.sizes[d] == x.sizes[d], op, ": OutputTensor.Sizes[", d, "] is ", y.sizes[d],
          "; it must be ", x.sizes[d]);
  check_extent(op, "OutputTensor", y);
  check_output_strides(op, "OutputTensor", y);
}

/// D-MVN-8, D-MVN-9.
double checked_epsilon(const MvnDesc& desc, Dtype dtype) {
  const double epsilon =
      dtype == Dtype::float64 ? desc.epsilon : double(static_cast<float>(desc.epsilon));
  check(std::isfinite(epsilon) && epsilon >= 0, desc.op, ": Epsilon is ", desc.epsilon,
        "; it must be finite", dtype == Dtype::float64 ? "" : " as a FLOAT", " and not negative");
  return epsilon;
}

int64_t broadcast_stride(const TensorDesc* parameter, int d) {
  return parameter && parameter->sizes[d] > 1 ? parameter->strides[d] : 0;
}

/// Sorts by x's memory, fastest last, and joins neighbours that every tensor can walk as one.
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

}  // namespace

MvnPlan make_plan(const MvnDesc& desc, const TensorDesc& x, const TensorDesc* scale,
                  const TensorDesc* bias, const TensorDesc& y) {
  check_input(desc.op, x);
  bool reduced[kMaxRank] = {};
  check_axes(desc, x, reduced);
  MvnPlan plan;
  plan.dtype = plan.scale_dtype = plan.bias_dtype = x.dtype;
  plan.use_mean = desc.use_mean;
  plan.use_variance = desc.use_variance;
  plan.epsilon = checked_epsilon(desc, x.dtype);
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
  check_output(desc.op, x, y);
  if (std::find(x.sizes.begin(), x.sizes.end(), 0) != x.sizes.end()) {
    plan.groups = 0;
    return plan;
  }
  for (int d = 0; d < x.rank(); ++d) {
    // Without statistics there are no groups: the whole tensor is one.
    const bool in_group = reduced[d] || !(plan.use_mean || plan.use_variance);
    (in_group ? plan.group_size : plan.groups) *= x.sizes[d];
    if (x.sizes[d] == 1) continue;
    (in_group ? plan.reduced[plan.reduced_rank++] : plan.kept[plan.kept_rank++]) = {
        x.sizes[d], x.strides[d], y.strides[d], broadcast_stride(scale, d),
        broadcast_stride(bias, d)};
  }
  plan.kept_rank = collapse(plan.kept, plan.kept_rank);
  plan.reduced_rank = collapse(plan.reduced, plan.reduced_rank);
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
         (has_bias ? bias * int64_t(size_of(bias_dtype)) : 0);
}

}  // namespace cudml
