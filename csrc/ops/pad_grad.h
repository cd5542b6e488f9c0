// The gradient of padding: what a caller asks for, what a kernel reads, and the rules between.
#pragma once

#include "ops/pad.h"

namespace cudml {

/// `input_sizes` is the shape of what was padded, which is also that of the result.
struct PadGradDesc {
  const char* op = "";
  Dims input_sizes, start_padding, end_padding;
  Border mode = Border::constant;
};

/// Positions of a padded dimension that show one of its elements, ascending: `first`, from which
/// the two gaps follow in turn.
struct Preimages {
  int64_t first, gap[2], count;

  HD int64_t at(int64_t k) const { return first + (k >> 1) * (gap[0] + gap[1]) + (k & 1) * gap[0]; }
};

/// Elements [0, in) of the result and positions [0, out) of the incoming gradient. Elements
/// [inner_begin, inner_end) show at one position alone, `start` after their own.
struct PadGradAxis {
  int64_t in = 1, out = 1, start = 0;
  int64_t inner_begin = 0, inner_end = 0;
  int64_t grad_stride = 0, stride = 0;
  Border mode = Border::edge;

  bool is_padded() const { return in != out; }
};

HD Preimages preimages_of(const PadGradAxis& a, int64_t i) {
  if (i >= a.inner_begin && i < a.inner_end) return {a.start + i, {0, 0}, 1};
  if (a.mode == Border::edge) {
    const int64_t first = i == 0 ? 0 : a.start + i, last = i == a.in - 1 ? a.out - 1 : a.start + i;
    return {first, {1, 1}, last - first + 1};
  }
  const bool is_turned = a.mode != Border::wrap;
  const int64_t period = a.mode == Border::reflection  ? 2 * (a.in - 1)
                         : a.mode == Border::symmetric ? 2 * a.in
                                                       : a.in;
  const int64_t straight = (a.start + i) % period;
  const int64_t turned = floor_mod(a.start - i - (a.mode == Border::symmetric), period);
  const int64_t low = is_turned && turned < straight ? turned : straight;
  const int64_t high = is_turned && turned > straight ? turned : straight;
  const int64_t count = (a.out - 1 - low) / period + 1;
  if (low == high) return {low, {period, period}, count};
  return {low,
          {high - low, period - (high - low)},
          count + (high < a.out ? (a.out - 1 - high) / period + 1 : 0)};
}

/// What a kernel reads of every mode but the constant one, whose gradient is a slice: dimensions
/// collapsed where that cannot be told apart, the fastest of the incoming gradient last. An empty
/// result is one axis with in = 0. An axis of one element is of mode edge.
///
/// An element is the sum, along axis `folded`, of what the other axes' positions add up to, each of
/// the two in ascending order of positions, and in a fixed tree where there are many
/// (math/long_sum.h).
struct PadGradPlan {
  Dtype dtype = Dtype::float32;
  int rank = 1;
  int folded = 0;
  PadGradAxis axis[kMaxRank];
  int64_t pieces = 1;     // of kPadGradPiece positions of `folded` each
  int64_t long_sums = 0;  // elements whose pieces the workspace holds; none where they are too many

  bool is_empty() const { return axis[0].in == 0; }
  int64_t workspace_bytes() const;
  int64_t elements() const;  // of the result
  int64_t terms() const;     // of the incoming gradient
  int64_t compulsory_bytes() const;
};

/// Positions of the folded axis whose terms add up by themselves where there are more than a chain
/// of them: the sums of such pieces are the terms of a long_sum.
inline constexpr int64_t kPadGradPiece = 4096;

/// The most positions that show one element of an axis.
int64_t most_preimages(const PadGradAxis& axis);

/// Sizes of the result; checks everything that does not need it.
Dims output_sizes(const PadGradDesc& desc, const TensorDesc& grad);

/// Every check of the specification, then the plan: of the constant mode, and of the others.
PadPlan make_slice_plan(const PadGradDesc& desc, const TensorDesc& grad, const TensorDesc& result);
PadGradPlan make_plan(const PadGradDesc& desc, const TensorDesc& grad, const TensorDesc& result);

}  // namespace cudml
