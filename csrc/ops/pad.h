// Padding: what a caller asks for, what a kernel reads, and the rules between.
#pragma once

#include "core/tensor.h"
#include "math/border.h"

namespace cudml {

/// The constant, already in the tensor's type: its low bytes, little-endian.
struct PadValue {
  alignas(8) unsigned char bytes[8] = {};
};

/// One entry per dimension of the tensor in start, end and mode.
struct PadDesc {
  const char* op = "";
  Dims start_padding, end_padding;
  Border mode[kMaxRank] = {};
  PadValue value;

  /// Whether the value is of any account, and therefore to be checked, in a tensor of that rank.
  bool has_constant(int rank) const;
};

/// The most elements of a padded dimension.
inline constexpr int64_t kMaxPaddedSize = 0xffffffff;

/// Refuses pads that are out of range or not one for each of `rank` dimensions, which are those of
/// `tensor`.
void check_pads(const char* op, const char* field, const Dims& pads, int rank, const char* tensor);

/// Sizes of the result; checks everything that does not need the output.
Dims output_sizes(const PadDesc& desc, const TensorDesc& x);

struct PadAxis {
  int64_t in = 1, out = 1, start = 0;
  int64_t x_stride = 0, y_stride = 0;
  Border mode = Border::constant;

  bool is_padded() const { return in != out; }
};

/// What a kernel reads: dimensions collapsed where that cannot be told apart, the fastest of y
/// last. An empty result is one axis with out = 0. Axes without pads have in = out and start = 0;
/// one that repeats a single element without the constant has x_stride = 0 and in = out instead of
/// pads.
struct PadPlan {
  int item_size = 4;
  int rank = 1;
  PadAxis axis[kMaxRank];
  PadValue value;
  int64_t x_first = 0;  // elements before the first one that is read

  bool is_empty() const { return axis[0].out == 0; }
  int64_t compulsory_bytes() const;
};

PadPlan make_plan(const PadDesc& desc, const TensorDesc& x, const TensorDesc& y);

/// D-PAD-3, D-PAD-4: the FLOAT of the PADDING descriptor, or a Python float, in the tensor's type.
/// Truncates and saturates for integers, rounds once for floats; `op` refuses NaN for integers.
PadValue pad_value(const char* op, Dtype dtype, double value);

}  // namespace cudml
