// Checks and plans of pooling gradients.
#include "ops/pool_grad.h"

#include <algorithm>

#include "core/layout.h"
#include "ops/pool_shape.h"

namespace cudml {
namespace {

constexpr PoolTensorNames kNames{"InputTensor", "InputGradientTensor"};
constexpr PoolTensorNames kAverageNames{"OutputGradientTensor", "InputGradientTensor"};

const PoolTensorNames& names_of(const PoolGradDesc& desc) {
  return desc.forward.kind == PoolKind::average ? kAverageNames : kNames;
}

/// Batch dimensions as in the forward input, spatial ones as D-POOL-2 allows (D-AVG-10).
void check_grad_sizes(const PoolGradDesc& desc, const Dims& grad) {
  const PoolDesc& f = desc.forward;
  const PoolTensorNames& names = names_of(desc);
  for (int d = 0, i = 0; d < grad.rank; ++d) {
    const bool pooled = i < f.axes.rank && f.axes[i] == d;
    if (!pooled) {
      check(grad[d] == desc.input_sizes[d], f.op, ": ", names.output, ".Sizes[", d, "] is ",
            grad[d], "; it must be ", desc.input_sizes[d], ", as in ", names.input);
      continue;
    }
    const OutputRange range = output_range(f, desc.input_sizes, i++);
    check(grad[d] >= 1 && grad[d] <= range.limit, f.op, ": ", names.output, ".Sizes[", d, "] is ",
          grad[d], "; it must be between 1 and ", range.limit, " (the floor rule gives ",
          range.floor, ")");
  }
}

void check_result_bytes(const PoolGradDesc& desc, Dtype dtype) {
  int64_t bytes = int64_t(size_of(dtype));
  for (int64_t size : desc.input_sizes)
    bytes = saturating_product(bytes, std::max<int64_t>(size, 1));
  check(bytes < INT64_MAX, desc.forward.op, ": OutputGradientTensor.Sizes is ", desc.input_sizes,
        "; the tensor must have fewer than 2^63 bytes");
}

void check_types(const PoolGradDesc& desc, const TensorDesc* x, const TensorDesc& grad) {
  const char* op = desc.forward.op;
  if (x) {
    check_pool_dtype(op, "InputTensor", x->dtype, false);
    check_type(grad.dtype == x->dtype, op, ": InputGradientTensor.DataType is ",
               name_of(grad.dtype), "; it must be that of InputTensor, ", name_of(x->dtype));
  }
  check_pool_dtype(op, "InputGradientTensor", grad.dtype, false);
}

/// The forward output, which Lp pooling's gradient reads: its norms may be kept in more digits than
/// 16-bit data has (D-GRAD-4).
void check_norms(const PoolGradDesc& desc, const TensorDesc& x, const TensorDesc& grad,
                 const TensorDesc& y) {
  const char* op = desc.forward.op;
  const bool is_narrow = size_of(x.dtype) == 2;
  check_type(y.dtype == x.dtype || (is_narrow && y.dtype == Dtype::float32), op,
             ": OutputTensor.DataType is ", name_of(y.dtype), "; it must be that of InputTensor, ",
             name_of(x.dtype), is_narrow ? ", or float32" : "");
  check_same_sizes(op, "OutputTensor", y.sizes, grad.sizes, "as in InputGradientTensor");
  check_extent(op, "OutputTensor", y);
}

int64_t planes(const PoolPlan& plan) {
  int64_t n = plan.batch[0] * plan.batch[1];
  for (int i = 0; i < plan.outer_rank; ++i) n *= plan.outer[i].size;
  return n;
}

int64_t plane_size(const PoolPlan& plan) {
  return plan.axis[0].in * plan.axis[1].in * plan.axis[2].in;
}

/// The workspace holds one index per window: packed, neighbouring planes side by side where they
/// are so in x, else whole planes of windows.
void place_winners(PoolGradPlan& plan) {
  PoolPlan& f = plan.forward;
  f.with_indices = true;
  f.index_dtype = plane_size(f) <= 4294967295 ? Dtype::uint32 : Dtype::uint64;
  f.flat = PoolStrides{};
  f.flat.space[2] = 1;
  f.flat.space[1] = f.axis[2].in;
  f.flat.space[0] = f.axis[2].in * f.axis[1].in;
  int64_t step = 1;
  const auto place = [&](int64_t& stride, int64_t size) {
    stride = step;
    step *= size;
  };
  const bool side_by_side = f.x.batch[1] == 1 && f.batch[1] > 1;
  if (side_by_side) place(f.indices.batch[1], f.batch[1]);
  for (int i = 2; i >= 0; --i) place(f.indices.space[i], f.axis[i].out);
  if (!side_by_side) place(f.indices.batch[1], f.batch[1]);
  place(f.indices.batch[0], f.batch[0]);
  for (int i = f.outer_rank - 1; i >= 0; --i) place(f.outer[i].indices, f.outer[i].size);
  plan.workspace_bytes = saturating_product(step, int64_t(size_of(f.index_dtype)));
}

/// A gradient that repeats its elements may have more windows than memory could hold winners.
void check_winners(const PoolGradDesc& desc, const TensorDesc& grad, const PoolGradPlan& plan) {
  check(plan.workspace_bytes < INT64_MAX, desc.forward.op, ": InputGradientTensor.Sizes are ",
        grad.sizes, "; the positions of their winners must have fewer than 2^63 bytes");
}

void check_result(const PoolGradDesc& desc, const TensorDesc& grad, const TensorDesc& result) {
  const char* op = desc.forward.op;
  check_type(result.dtype == grad.dtype, op, ": OutputGradientTensor.DataType is ",
             name_of(result.dtype), "; it must be that of InputGradientTensor, ",
             name_of(grad.dtype));
  check_same_sizes(op, "OutputGradientTensor", result.sizes, desc.input_sizes,
                   "as in the forward input");
  check_extent(op, "OutputGradientTensor", result);
  check_output_strides(op, "OutputGradientTensor", result);
}

}  // namespace

int64_t PoolGradPlan::compulsory_bytes() const {
  const int64_t elements = planes(forward) * plane_size(forward);
  const int64_t read = forward.kind == PoolKind::average ? 0 : elements;
  const bool has_norms = forward.kind == PoolKind::lp && forward.p > 1;
  return (read + elements + forward.outputs()) * int64_t(size_of(forward.dtype)) +
         (has_norms ? forward.outputs() * int64_t(size_of(norm_dtype)) : 0);
}

Dims output_sizes(const PoolGradDesc& desc, const TensorDesc* x, const TensorDesc& grad,
                  const TensorDesc* y) {
  const PoolTensorNames& names = names_of(desc);
  const char* op = desc.forward.op;
  check_types(desc, x, grad);
  PoolDesc geometry = desc.forward;
  geometry.output_rule = OutputRule::floor;
  check_geometry(geometry, desc.input_sizes, names);
  if (x)
    check_same_sizes(op, "InputTensor", x->sizes, desc.input_sizes, "as in OutputGradientTensor");
  check(grad.rank() == desc.input_sizes.rank, op, ": InputGradientTensor.DimensionCount is ",
        grad.rank(), "; it must be ", desc.input_sizes.rank, ", as in ", names.input);
  check_grad_sizes(desc, grad.sizes);
  if (x) check_extent(op, "InputTensor", *x);
  check_extent(op, "InputGradientTensor", grad);
  if (y) check_norms(desc, *x, grad, *y);
  check_result_bytes(desc, grad.dtype);
  return desc.input_sizes;
}

PoolGradPlan make_plan(const PoolGradDesc& desc, const TensorDesc* x, const TensorDesc& grad,
                       const TensorDesc& result, const TensorDesc* y) {
  output_sizes(desc, x, grad, y);
  check_result(desc, grad, result);
  PoolGradPlan plan;
  PoolPlan& f = plan.forward;
  f.kind = desc.forward.kind;
  f.dtype = grad.dtype;
  f.include_padding = desc.forward.include_padding;
  const bool is_max = f.kind == PoolKind::max;
  PoolOperands operands{x ? &x->strides : &result.strides, &grad.strides};
  operands.result = &result.strides;
  if (y) {
    operands.indices = &y->strides;
    plan.norm_dtype = y->dtype;
    f.p = desc.forward.p;
  }
  const PoolDims dims =
      place_dimensions(f, desc.forward, desc.input_sizes, grad.sizes, operands, is_max);
  for (int i = 0; i < 3; ++i) plan.result.space[i] = dims.space[i].result;
  for (int i = 0; i < dims.batch_rank; ++i) {
    if (i < f.outer_rank)
      plan.result_outer[i] = dims.batch[i].result;
    else
      plan.result.batch[2 - (dims.batch_rank - i)] = dims.batch[i].result;
  }
  if (is_max) {
    place_winners(plan);
    check_winners(desc, grad, plan);
  }
  return plan;
}

}  // namespace cudml
