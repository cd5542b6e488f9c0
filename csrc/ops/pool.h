// Pooling: what a caller asks for (PoolDesc), what a kernel reads (PoolPlan), the rules between.
#pragma once

#include <algorithm>
#include <type_traits>

#include "core/hd.h"
#include "core/tensor.h"

namespace cudml {

enum class PoolKind : uint8_t { max, average, lp };
enum class OutputRule : uint8_t { floor, ceil, given };

/// One entry per pooled dimension in every Dims; fields are DirectML's.
struct PoolDesc {
  const char* op = "";  // the name that refusals begin with
  PoolKind kind = PoolKind::max;
  Dims axes;  // pooled dimensions of the input, ascending; 1 to 3
  Dims window_size, strides, start_padding, end_padding, dilations;
  OutputRule output_rule = OutputRule::floor;
  Dims output_sizes;             // pooled dimensions only, read when output_rule is `given`
  bool include_padding = false;  // average
  uint32_t p = 2;                // lp
};

/// Sizes of the result, all dimensions of x. Checks everything that does not need the output.
Dims output_sizes(const PoolDesc& desc, const TensorDesc& x);

/// One spatial axis; everything fits 31 bits: `dilation` and `stride` are set to 1 where they
/// cannot matter (one tap, one output), and a stride beyond the padded extent is cut to it.
template <class Int>
struct PoolAxisOf {
  Int in = 1, out = 1, window = 1, stride = 1, start = 0, end = 0, dilation = 1;
};
using PoolAxis = PoolAxisOf<int64_t>;

/// A tensor as the kernels see it: element strides of two batch and three spatial dimensions.
template <class Int>
struct PoolStridesOf {
  Int batch[2] = {0, 0}, space[3] = {0, 0, 0};
};
using PoolStrides = PoolStridesOf<int64_t>;

/// Batch dimensions beyond two, looped over outside the kernel: a position at a time, or several of
/// a dimension that is cut, of which the last turn takes some again.
struct PoolOuter {
  int64_t size = 1, x = 0, y = 0, indices = 0, flat = 0;
  int64_t step = 1;  // positions of a turn

  int64_t turns() const { return (size + step - 1) / step; }
  int64_t position(int64_t turn) const { return std::min(turn * step, size - step); }
};

/// What a kernel reads. Spatial axes are right-aligned in {D,H,W}: where winners are numbered
/// (indices, max gradient) those of one element, then the others in x's own order; else sorted by
/// x's memory, the fastest last; axes that one window covers exactly are one axis where memory
/// allows. Batch dimensions are collapsed and sorted by memory, the fastest last. `flat` holds what
/// one step along a dimension adds to the index of D-MAX-1. A plan without outputs does nothing.
struct PoolPlan {
  PoolKind kind = PoolKind::max;
  Dtype dtype = Dtype::float32;
  Dtype index_dtype = Dtype::uint32;
  bool with_indices = false, include_padding = false;
  uint32_t p = 2;
  int64_t batch[2] = {1, 1};
  PoolAxis axis[3];
  PoolStrides x, y, indices, flat;
  int outer_rank = 0;
  PoolOuter outer[kMaxRank];

  int64_t outputs() const;  // elements of y
  bool is_empty() const { return outputs() == 0; }
  int64_t compulsory_bytes() const;  // input read once, outputs written once
};

/// Every check of the specification, then the plan. `indices` is null where none are asked for.
PoolPlan make_plan(const PoolDesc& desc, const TensorDesc& x, const TensorDesc& y,
                   const TensorDesc* indices);

/// Taps [first, last) of the window at output coordinate `o` that lie in [0, in), and how many lie
/// in [-start, in + end): what a window sees along one axis (specification 3.3). 32 bits will do
/// where every o * stride fits them.
template <class Int>
struct TapsOf {
  Int first, last, inside;
  HD Int real() const { return last - first; }
};
using Taps = TapsOf<int64_t>;

template <class Int>
HD TapsOf<Int> taps_at(const PoolAxisOf<Int>& a, std::type_identity_t<Int> o) {
  const Int begin = o * a.stride - a.start;
  const auto below = [&](Int limit) HD_LAMBDA {  // taps k with begin + k * dilation < limit
    if (begin >= limit) return Int{0};
    const Int reach = limit - begin - 1;
    const Int n = (a.dilation == 1 ? reach : reach / a.dilation) + 1;
    return n < a.window ? n : a.window;
  };
  return {below(0), below(a.in), below(a.in + a.end)};
}

}  // namespace cudml
