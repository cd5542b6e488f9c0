// Checks and plans of max unpooling.
#include "ops/unpool.h"

#include <algorithm>

#include "core/layout.h"
#include "ops/pool_shape.h"

namespace cudml {
namespace {

bool is_index_type(Dtype type) {
  return type == Dtype::uint32 || type == Dtype::uint64 || type == Dtype::int32 ||
         type == Dtype::int64;
}

void check_indices(const char* op, const TensorDesc& x, const TensorDesc& indices) {
  check_type(is_index_type(indices.dtype), op, ": IndicesTensor.DataType is ",
             name_of(indices.dtype), "; it must be uint32, uint64, int32 or int64");
  check_same_sizes(op, "IndicesTensor", indices.sizes, x.sizes, "as in InputTensor");
  check_extent(op, "IndicesTensor", indices);
}

void check_sizes(const UnpoolDesc& desc, const TensorDesc& x) {
  const char* op = desc.op;
  const Dims& sizes = desc.output_sizes;
  check(sizes.rank == x.rank(), op, ": OutputTensor.DimensionCount is ", sizes.rank,
        "; it must be ", x.rank(), ", as in InputTensor");
  int64_t bytes = int64_t(size_of(x.dtype));
  for (int d = 0; d < sizes.rank; ++d) {
    check(d > 1 || sizes[d] == x.sizes[d], op, ": OutputTensor.Sizes[", d, "] is ", sizes[d],
          "; it must be ", x.sizes[d], ", as in InputTensor");
    check(d < 2 || sizes[d] >= 1, op, ": OutputTensor.Sizes[", d, "] is ", sizes[d],
          "; it must be at least 1");
    bytes = saturating_product(bytes, std::max<int64_t>(1, sizes[d]));
  }
  check(bytes <= int64_t{1} << 62, op, ": OutputTensor.Sizes is ", sizes,
        "; together they must not exceed 2^62 bytes");
}

/// The stride of a dimension; where there is a single element none is used.
int64_t stride_of(const TensorDesc& t, int d) { return t.sizes[d] == 1 ? 0 : t.strides[d]; }

bool runs_on(int64_t outer, int64_t inner, int64_t size) { return outer == inner * size; }

/// Puts a dimension behind the last of `list`, or into it where memory runs through.
template <class Dim, class RunsOn>
void append(Dim* list, int& rank, const Dim& dim, const RunsOn& runs) {
  if (dim.size == 1) return;
  Dim joined = dim;
  if (rank > 0 && runs(list[rank - 1], dim)) joined.size *= list[--rank].size;
  list[rank++] = joined;
}

template <class Dim>
void align_right(Dim* list, int rank, int most) {
  std::move_backward(list, list + rank, list + most);
  std::fill(list, list + most - rank, Dim{});
}

void place_batch(UnpoolPlan& plan, const TensorDesc& x, const TensorDesc& indices,
                 const TensorDesc& y) {
  int rank = 0;
  for (int d = 0; d < 2; ++d)
    append(plan.batch, rank, {x.sizes[d], stride_of(x, d), stride_of(indices, d), stride_of(y, d)},
           [](const UnpoolBatch& outer, const UnpoolBatch& inner) {
             return runs_on(outer.x, inner.x, inner.size) &&
                    runs_on(outer.indices, inner.indices, inner.size) &&
                    runs_on(outer.y, inner.y, inner.size);
           });
  align_right(plan.batch, rank, 2);
}

void place_space(UnpoolPlan& plan, const TensorDesc& x, const TensorDesc& indices,
                 const TensorDesc& y) {
  int sources = 0, targets = 0;
  for (int d = 2; d < x.rank(); ++d) {
    if (d > 2) plan.step *= x.sizes[d];
    plan.extent[3 - x.rank() + d] = {x.sizes[d], y.sizes[d]};
    append(plan.source, sources, {x.sizes[d], stride_of(x, d), stride_of(indices, d)},
           [](const UnpoolSource& outer, const UnpoolSource& inner) {
             return runs_on(outer.x, inner.x, inner.size) &&
                    runs_on(outer.indices, inner.indices, inner.size);
           });
    append(plan.target, targets, {y.sizes[d], stride_of(y, d)},
           [](const UnpoolTarget& outer, const UnpoolTarget& inner) {
             return runs_on(outer.y, inner.y, inner.size);
           });
  }
  align_right(plan.source, sources, 3);
  align_right(plan.target, targets, 3);
}

}  // namespace

int64_t UnpoolPlan::compulsory_bytes() const {
  return sources() * (item_size + int64_t(size_of(index_dtype))) + targets() * item_size;
}

Dims output_sizes(const UnpoolDesc& desc, const TensorDesc& x, const TensorDesc& indices) {
  check(x.rank() >= 3 && x.rank() <= 5, desc.op, ": InputTensor.DimensionCount is ", x.rank(),
        "; it must be 3, 4 or 5 ({N,C,spatial})");
  for (int d = 2; d < x.rank(); ++d)
    check(x.sizes[d] >= 1, desc.op, ": InputTensor.Sizes[", d,
          "] is 0; a spatial dimension must have at least 1 element");
  check_extent(desc.op, "InputTensor", x);
  check_indices(desc.op, x, indices);
  check_sizes(desc, x);
  return desc.output_sizes;
}

UnpoolPlan make_plan(const UnpoolDesc& desc, const TensorDesc& x, const TensorDesc& indices,
                     const TensorDesc& y) {
  output_sizes(desc, x, indices);
  check_type(y.dtype == x.dtype, desc.op, ": OutputTensor.DataType is ", name_of(y.dtype),
             "; it must be that of InputTensor, ", name_of(x.dtype));
  check_same_sizes(desc.op, "OutputTensor", y.sizes, desc.output_sizes, "as output_sizes says");
  check_extent(desc.op, "OutputTensor", y);
  check_output_strides(desc.op, "OutputTensor", y);
  UnpoolPlan plan;
  plan.item_size = int(size_of(x.dtype));
  plan.index_dtype = indices.dtype;
  place_batch(plan, x, indices, y);
  place_space(plan, x, indices, y);
  // All ones mark empty windows, whatever the type of indices is.
  plan.limit = uint64_t(plan.targets());
  if (indices.dtype == Dtype::uint32) plan.limit = std::min<uint64_t>(plan.limit, 0xffffffff);
  return plan;
}

}  // namespace cudml
