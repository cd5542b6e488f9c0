// The gradient of padding: what a caller asks for, what a kernel reads, and the rules between.
#pragma once

#include <type_traits>

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
template <class Int>
struct PreimagesOf {
  Int first, gap[2], count;

  HD Int at(Int k) const { return first + (k >> 1) * (gap[0] + gap[1]) + (k & 1) * gap[0]; }
};
using Preimages = PreimagesOf<int64_t>;

/// Elements [0, in) of the result and positions [0, out) of the incoming gradient. Elements
/// [inner_begin, inner_end) show at one position alone, `start` after their own.
template <class Int>
struct PadGradAxisOf {
  Int in = 1, out = 1, start = 0;
  Int inner_begin = 0, inner_end = 0;
  int64_t grad_stride = 0, stride = 0;
  Border mode = Border::edge;

  bool is_padded() const { return in != out; }
};
using PadGradAxis = PadGradAxisOf<int64_t>;

template <class Int>
HD PreimagesOf<Int> preimages_of(const PadGradAxisOf<Int>& a, std::type_identity_t<Int> i) {
  if (i >= a.inner_begin && i < a.inner_end) return {a.start + i, {0, 0}, 1};
  if (a.mode == Border::edge) {
    const Int first = i == 0 ? 0 : a.start + i, last = i == a.in - 1 ? a.out - 1 : a.start + i;
    return {first, {1, 1}, last - first + 1};
  }
  const bool is_turned = a.mode != Border::wrap;
  const Int period = a.mode == Border::reflection  ? 2 * (a.in - 1)
                     : a.mode == Border::symmetric ? 2 * a.in
                                                   : a.in;
  const Int straight = (a.start + i) % period;
  const Int turned = floor_mod<Int>(a.start - i - (a.mode == Border::symmetric), period);
  const Int low = is_turned && turned < straight ? turned : straight;
  const Int high = is_turned && turned > straight ? turned : straight;
  const Int count = (a.out - 1 - low) / period + 1;
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

/// The elements with long sums: at both ends of the folded axis, or all along it.
class PadGradLongSums {
 public:
  explicit PadGradLongSums(const PadGradPlan& plan)
      : in_(plan.axis[plan.folded].in), ends_only_(plan.axis[plan.folded].mode == Border::edge) {
    for (int d = plan.rank - 1; d > plan.folded; --d) inside_ *= plan.axis[d].in;
    along_ = ends_only_ && in_ > 2 ? 2 : in_;
  }

  int64_t count(int64_t elements) const { return elements / in_ * along_; }

  /// The element that has a number among them.
  HD int64_t element(int64_t number) const {
    const int64_t inside = number % inside_, rest = number / inside_;
    int64_t i = rest % along_;
    if (ends_only_ && i > 0) i = in_ - 1;
    return (rest / along_ * in_ + i) * inside_ + inside;
  }

  /// The number of an element that is one of them.
  HD int64_t number(int64_t element) const {
    const int64_t inside = element % inside_, rest = element / inside_, i = rest % in_;
    return (rest / in_ * along_ + (ends_only_ ? i > 0 : i)) * inside_ + inside;
  }

 private:
  int64_t in_, along_ = 1, inside_ = 1;
  bool ends_only_;
};

/// Sizes of the result; checks everything that does not need it.
Dims output_sizes(const PadGradDesc& desc, const TensorDesc& grad);

/// Every check of the specification, then the plan: of the constant mode, and of the others.
PadPlan make_slice_plan(const PadGradDesc& desc, const TensorDesc& grad, const TensorDesc& result);
PadGradPlan make_plan(const PadGradDesc& desc, const TensorDesc& grad, const TensorDesc& result);

}  // namespace cudml
