// Rules that forward pooling and its gradients share: geometry of the window, and how dimensions
// become a plan.
#pragma once

#include "ops/pool.h"

namespace cudml {

/// Names the tensors of a call in refusals, and fixes what its data may be.
struct PoolTensorNames {
  const char* input = "InputTensor";    // sizes of the forward input
  const char* output = "OutputTensor";  // sizes of the forward output
};

/// Structure, scalars and products (specification 3.2, 3.4); element types are checked elsewhere.
void check_geometry(const PoolDesc& desc, const Dims& input, const PoolTensorNames& names);

/// What one spatial axis allows; call after check_geometry.
struct OutputRange {
  int64_t floor, limit;  // floor rule; OutCeil, the largest size accepted (D-POOL-2)
};
OutputRange output_range(const PoolDesc& desc, const Dims& input, int i);

/// The tensors of a call, null where absent, in the roles that a plan has for strides.
struct PoolOperands {
  const Dims* x = nullptr;
  const Dims* y = nullptr;
  const Dims* indices = nullptr;
  const Dims* flat = nullptr;
  const Dims* result = nullptr;  // gradients only
};

/// A dimension of the plan before it has found its place.
struct PoolDim {
  int64_t size = 1, x = 0, y = 0, indices = 0, flat = 0, result = 0;
};

/// Batch dimensions in plan order, then the spatial ones.
struct PoolDims {
  int batch_rank = 0;
  PoolDim batch[kMaxRank];
  PoolDim space[3];
};

/// Fills axes and dimensions of `plan` from a checked description; returns the dimensions for
/// tensors that a PoolPlan does not hold. `ordered` keeps the spatial axes in x's own order, but
/// for those of one element.
PoolDims place_dimensions(PoolPlan& plan, const PoolDesc& desc, const Dims& input,
                          const Dims& output, const PoolOperands& operands, bool ordered);

/// Refuses sizes that differ, naming the first dimension that does.
void check_same_sizes(const char* op, const char* field, const Dims& sizes, const Dims& expected,
                      const char* reason);

/// Refuses an element type that the kind of pooling does not take (max only: integers).
void check_pool_dtype(const char* op, const char* field, Dtype dtype, bool integers);

/// a * b and a + b of non-negative numbers, at most the largest 64-bit integer.
int64_t saturating_product(int64_t a, int64_t b);
int64_t saturating_sum(int64_t a, int64_t b);

}  // namespace cudml
