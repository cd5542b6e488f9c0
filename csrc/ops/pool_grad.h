// Gradients of max and average pooling: descriptions, plans, and the rules between.
#pragma once

#include "ops/pool.h"

namespace cudml {

/// `forward` describes the forward pooling (kind max or average); `input_sizes` is the full shape
/// of its input, which is also the shape of the result. Output rule and sizes are not read.
struct PoolGradDesc {
  PoolDesc forward;
  Dims input_sizes;
};

/// What a kernel reads: `forward.x` strides belong to x (max only), `forward.y` to the incoming
/// gradient, `result` to the outgoing one. For max, `forward` finds the winners: its indices are
/// the workspace, packed, and number the elements of one plane of x.
struct PoolGradPlan {
  PoolPlan forward;
  PoolStrides result;
  int64_t result_outer[kMaxRank] = {};
  int64_t workspace_bytes = 0;

  int64_t compulsory_bytes() const;  // x and the gradient read once, the result written once
};

/// Sizes of the result. Checks everything that does not need it; `x` is null for average pooling.
/// Refuses sizes of `grad` that D-POOL-2 would not allow.
Dims output_sizes(const PoolGradDesc& desc, const TensorDesc* x, const TensorDesc& grad);

/// Every check of the specification, then the plan.
PoolGradPlan make_plan(const PoolGradDesc& desc, const TensorDesc* x, const TensorDesc& grad,
                       const TensorDesc& result);

}  // namespace cudml
