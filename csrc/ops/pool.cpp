// Checks and plans of forward pooling.
#include "ops/pool.h"

#include <algorithm>

#include "core/layout.h"
#include "ops/pool_shape.h"

namespace cudml {
namespace {

constexpr PoolTensorNames kNames;

int64_t output_size(const PoolDesc& desc, const Dims& input, int i) {
  const int axis = int(desc.axes[i]);
  const OutputRange range = output_range(desc, input, i);
  if (desc.output_rule == OutputRule::floor) return range.floor;
  if (desc.output_rule == OutputRule::ceil) {
    const int64_t starts = input[axis] + desc.start_padding[i], step = desc.strides[i];
    return std::min(range.limit, (starts + step - 1) / step);
  }
  const int64_t given = desc.output_sizes[i];
  check(given >= 1 && given <= range.limit, desc.op, ": OutputTensor.Sizes[", axis, "] is ", given,
        "; it must be between 1 and ", range.limit, " (the floor rule gives ", range.floor, ")");
  return given;
}

/// The bytes of a packed result must fit 63 bits, whatever holds the input, and its strides even
/// where it is empty.
void check_output_bytes(const PoolDesc& desc, Dtype dtype, const Dims& sizes) {
  int64_t bytes = int64_t(size_of(dtype));
  for (int64_t size : sizes) bytes = saturating_product(bytes, std::max<int64_t>(size, 1));
  check(bytes < INT64_MAX, desc.op, ": OutputTensor.Sizes is ", sizes,
        "; the tensor must have fewer than 2^63 bytes");
}

void check_input(const PoolDesc& desc, const TensorDesc& x) {
  check_pool_dtype(desc.op, "InputTensor", x.dtype, desc.kind == PoolKind::max);
  check_geometry(desc, x.sizes, kNames);
  check_extent(desc.op, "InputTensor", x);
}

void check_indices(const PoolDesc& desc, const TensorDesc& x, const TensorDesc& y,
                   const TensorDesc& indices) {
  const Dtype type = indices.dtype;
  check_type(type == Dtype::uint32 || type == Dtype::uint64 || type == Dtype::int64, desc.op,
             ": OutputIndicesTensor.DataType is ", name_of(type),
             "; it must be uint32, uint64 or int64");
  check_same_sizes(desc.op, "OutputIndicesTensor", indices.sizes, y.sizes, "as in OutputTensor");
  check_extent(desc.op, "OutputIndicesTensor", indices);
  check_output_strides(desc.op, "OutputIndicesTensor", indices);
  const int64_t elements = count(x.sizes);
  check(type != Dtype::uint32 || elements <= 4294967295, desc.op,
        ": OutputIndicesTensor.DataType is uint32; InputTensor has ", elements,
        " elements, and more than 4294967295 need uint64 or int64");
}

void check_output(const PoolDesc& desc, const TensorDesc& x, const Dims& sizes,
                  const TensorDesc& y) {
  check_type(y.dtype == x.dtype, desc.op, ": OutputTensor.DataType is ", name_of(y.dtype),
             "; it must be that of InputTensor, ", name_of(x.dtype));
  check_same_sizes(desc.op, "OutputTensor", y.sizes, sizes, "as input and window determine");
  check_extent(desc.op, "OutputTensor", y);
  check_output_strides(desc.op, "OutputTensor", y);
}

int64_t outer_count(const PoolPlan& plan) {
  int64_t n = plan.batch[0] * plan.batch[1];
  for (int i = 0; i < plan.outer_rank; ++i) n *= plan.outer[i].turns();
  return n;
}

}  // namespace

Dims output_sizes(const PoolDesc& desc, const TensorDesc& x) {
  check_input(desc, x);
  Dims sizes = x.sizes;
  for (int i = 0; i < desc.axes.rank; ++i) sizes[int(desc.axes[i])] = output_size(desc, x.sizes, i);
  check_output_bytes(desc, x.dtype, sizes);
  return sizes;
}

int64_t PoolPlan::outputs() const {
  int64_t n = outer_count(*this);
  for (const PoolAxis& a : axis) n *= a.out;
  return n;
}

int64_t PoolPlan::compulsory_bytes() const {
  int64_t inputs = outer_count(*this);
  for (const PoolAxis& a : axis) inputs *= a.in;
  const int64_t item = int64_t(size_of(dtype));
  const int64_t index = with_indices ? int64_t(size_of(index_dtype)) : 0;
  return inputs * item + outputs() * (item + index);
}

PoolPlan make_plan(const PoolDesc& desc, const TensorDesc& x, const TensorDesc& y,
                   const TensorDesc* indices) {
  const Dims sizes = output_sizes(desc, x);
  check_output(desc, x, sizes, y);
  if (indices) check_indices(desc, x, y, *indices);
  PoolPlan plan;
  plan.kind = desc.kind;
  plan.dtype = x.dtype;
  plan.with_indices = indices != nullptr;
  plan.include_padding = desc.include_padding;
  plan.p = desc.p;
  PoolOperands operands{&x.strides, &y.strides};
  Dims flat;
  if (indices) {
    plan.index_dtype = indices->dtype;
    operands.indices = &indices->strides;
    flat = packed_strides(x.sizes);
    operands.flat = &flat;
  }
  place_dimensions(plan, desc, x.sizes, sizes, operands, indices != nullptr);
  return plan;
}

}  // namespace cudml
