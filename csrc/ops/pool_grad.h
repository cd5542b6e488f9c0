// Gradients of max, average and Lp pooling: descriptions, plans, and the rules between.
#pragma once

#include "ops/pool.h"

namespace cudml {

/// `forward` describes the forward pooling; `input_sizes` is the full shape of its input, which is
/// also the shape of the result. Output rule and sizes are not read.
struct PoolGradDesc {
  PoolDesc forward;
  Dims input_sizes;
};

/// What a kernel reads: `forward.x` strides belong to x (max and Lp), `forward.y` to the incoming
/// gradient, `result` to the outgoing one. For max, `forward` finds the winners: its indices are
/// the workspace, packed, and number the elements of one plane of x. For Lp, strides of indices
/// belong to the norms, the forward output.
struct PoolGradPlan {
  PoolPlan forward;
  PoolStrides result;
  int64_t result_outer[kMaxRank] = {};
  int64_t workspace_bytes = 0;
  Dtype norm_dtype = Dtype::float32;  // Lp: that of x, or float32

  bool is_empty() const { return forward.is_empty(); }
  int64_t compulsory_bytes() const;  // inputs that count read once, the result written once
};

/// Outputs that have a tap exactly at one position of an axis: first, first + step … up to last;
/// none where first > last.
struct Covers {
  int64_t first, last, step;
};

/// o * stride - start + k * dilation = i has solutions every dilation / gcd outputs; the first one
/// is looked for among the outputs or among the taps, whichever are fewer.
HD Covers covers_of(const PoolAxis& a, int64_t i) {
  const int64_t at = i + a.start, behind = at - (a.window - 1) * a.dilation;
  const int64_t first = behind <= 0 ? 0 : (behind + a.stride - 1) / a.stride;
  const int64_t reached = at / a.stride, last = reached < a.out ? reached : a.out - 1;
  if (a.dilation == 1) return {first, last, 1};
  int64_t gcd = a.stride;
  for (int64_t b = a.dilation; b != 0;) {
    const int64_t rest = gcd % b;
    gcd = b;
    b = rest;
  }
  const int64_t step = a.dilation / gcd, tap_step = a.stride / gcd;
  const int64_t outputs = step < last - first + 1 ? step : last - first + 1;
  if (outputs <= (tap_step < a.window ? tap_step : a.window)) {
    const int64_t end = first + outputs - 1;
    int64_t o = first;
    while (o <= end && (at - o * a.stride) % a.dilation != 0) ++o;
    return {o <= end ? o : last + 1, last, step};
  }
  int64_t k = at / a.dilation < a.window ? at / a.dilation : a.window - 1;
  while (k >= 0 && (at - k * a.dilation) % a.stride != 0) --k;
  return {k >= 0 ? (at - k * a.dilation) / a.stride : last + 1, last, step};
}

/// Taps of the window at output `o` of an axis that count for the divisor of an average.
template <class Int>
HD Int counted_at(const PoolAxisOf<Int>& a, bool include_padding, std::type_identity_t<Int> o) {
  const TapsOf<Int> t = taps_at(a, o);
  return include_padding ? t.inside : t.real();
}
HD int64_t counted_at(const PoolPlan& forward, int axis, int64_t o) {
  return counted_at(forward.axis[axis], forward.include_padding, o);
}

/// Sizes of the result. Checks everything that does not need it; `x` is null for average pooling,
/// `y`, the forward output, for all but Lp. Refuses sizes of `grad` that D-POOL-2 would not allow.
Dims output_sizes(const PoolGradDesc& desc, const TensorDesc* x, const TensorDesc& grad,
                  const TensorDesc* y = nullptr);

/// Every check of the specification, then the plan.
PoolGradPlan make_plan(const PoolGradDesc& desc, const TensorDesc* x, const TensorDesc& grad,
                       const TensorDesc& result, const TensorDesc* y = nullptr);

}  // namespace cudml
