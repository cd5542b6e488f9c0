// Padding: every check, the plan, and the constant in the tensor's type.
#include "ops/pad.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "core/layout.h"

namespace cudml {
namespace {

void check_output_size(const PadDesc& desc, const TensorDesc& x, int d) {
  const int64_t start = desc.start_padding[d], end = desc.end_padding[d];
  check(x.sizes[d] <= kMaxPaddedSize - start - end, desc.op, ": OutputTensor.Sizes[", d, "] is ",
        x.sizes[d], " + ", start, " + ", end, "; it must be at most ", kMaxPaddedSize);
  check(x.sizes[d] > 0 || start + end == 0, desc.op, ": InputTensor.Sizes[", d,
        "] is 0; a dimension with padding must not be empty");
}

void check_output(const PadDesc& desc, const Dims& sizes, const TensorDesc& x,
                  const TensorDesc& y) {
  check_type(y.dtype == x.dtype, desc.op, ": OutputTensor.DataType is ", name_of(y.dtype),
             "; it must be InputTensor's, ", name_of(x.dtype));
  check(y.rank() == sizes.rank, desc.op, ": OutputTensor.Sizes are ", y.sizes, "; they must be ",
        sizes);
  for (int d = 0; d < sizes.rank; ++d)
    check(y.sizes[d] == sizes[d], desc.op, ": OutputTensor.Sizes[", d, "] is ", y.sizes[d],
          "; it must be ", sizes[d], ", InputTensor + StartPadding + EndPadding");
  check_extent(desc.op, "InputTensor", x);
  check_extent(desc.op, "OutputTensor", y);
  check_output_strides(desc.op, "OutputTensor", y);
}

PadAxis axis_of(const PadDesc& desc, const TensorDesc& x, const TensorDesc& y, int d) {
  PadAxis a{x.sizes[d],   y.sizes[d],   desc.start_padding[d],
            x.strides[d], y.strides[d], desc.mode[d]};
  if (a.in == 1) a.x_stride = 0;
  if (a.in == 1 && a.mode != Border::constant) {
    a.in = a.out;
    a.start = 0;
  }
  if (!a.is_padded()) a.mode = Border::constant;
  return a;
}

/// A padded dimension takes the unpadded one inside it along as blocks, where its rule moves whole
/// blocks without turning them round or repeating their elements.
bool can_merge(const PadAxis& outer, const PadAxis& inner) {
  return !inner.is_padded() && (outer.mode == Border::constant || outer.mode == Border::wrap) &&
         (outer.in == 1 || outer.x_stride == inner.x_stride * inner.in) &&
         outer.y_stride == inner.y_stride * inner.out;
}

template <class T>
T saturated(double value) {
  const double whole = std::trunc(value);
  if (whole < double(std::numeric_limits<T>::min())) return std::numeric_limits<T>::min();
  // The maximum of a 64-bit type rounds up to a power of two, which no longer fits.
  if (whole >= double(std::numeric_limits<T>::max())) return std::numeric_limits<T>::max();
  return static_cast<T>(whole);
}

/// Rounds to odd, so that a second rounding to at most 22 bits gives what one alone would have.
float to_odd_float(double value) {
  const auto nearest = static_cast<float>(value);
  const auto bits = std::bit_cast<uint32_t>(nearest);
  if (nearest == value || !std::isfinite(nearest) || bits & 1) return nearest;
  return std::bit_cast<float>(std::abs(value) > std::abs(nearest) ? bits + 1 : bits - 1);
}

template <class T>
T element_of(double value) {
  if constexpr (kIsHalf<T>)
    return store_as<T>(to_odd_float(value));
  else if constexpr (kIsFloat<T>)
    return static_cast<T>(value);
  else
    return saturated<T>(value);
}

}  // namespace

void check_pads(const char* op, const char* field, const Dims& pads, int rank, const char* tensor) {
  check(pads.rank == rank, op, ": ", field, " is ", pads, "; it must have ", rank,
        " entries, one for each dimension of ", tensor);
  for (int d = 0; d < rank; ++d)
    check(pads[d] >= 0 && pads[d] <= kMaxPaddedSize, op, ": ", field, "[", d, "] is ", pads[d],
          "; it must be between 0 and ", kMaxPaddedSize,
          pads[d] < 0 ? " (to remove elements, slice the array)" : "");
}

bool PadDesc::has_constant(int rank) const {
  return std::find(mode, mode + rank, Border::constant) != mode + rank;
}

Dims output_sizes(const PadDesc& desc, const TensorDesc& x) {
  check(x.rank() >= 1 && x.rank() <= kMaxRank, desc.op, ": DimensionCount is ", x.rank(),
        "; it must be between 1 and ", kMaxRank);
  check_pads(desc.op, "StartPadding", desc.start_padding, x.rank(), "InputTensor");
  check_pads(desc.op, "EndPadding", desc.end_padding, x.rank(), "InputTensor");
  Dims sizes;
  __int128 bytes = size_of(x.dtype);
  for (int d = 0; d < x.rank(); ++d) {
    check(desc.mode[d] <= Border::wrap, desc.op, ": PaddingMode is ", int(desc.mode[d]),
          "; it must be between 0 and 4");
    check_output_size(desc, x, d);
    sizes.push_back(x.sizes[d] + desc.start_padding[d] + desc.end_padding[d]);
    bytes *= std::max<int64_t>(sizes[d], 1);
    check(bytes <= __int128(1) << 62, desc.op, ": OutputTensor.Sizes[", d, "] is ", sizes[d],
          "; all sizes together must not exceed 2^62 bytes");
  }
  return sizes;
}

PadPlan make_plan(const PadDesc& desc, const TensorDesc& x, const TensorDesc& y) {
  const Dims sizes = output_sizes(desc, x);
  check_output(desc, sizes, x, y);
  PadPlan plan;
  plan.item_size = int(size_of(x.dtype));
  plan.value = desc.value;
  if (count(sizes) == 0) {
    plan.axis[0].in = plan.axis[0].out = 0;
    return plan;
  }
  PadAxis axes[kMaxRank];
  int rank = 0;
  for (int d = 0; d < sizes.rank; ++d)
    if (sizes[d] > 1) axes[rank++] = axis_of(desc, x, y, d);
  std::stable_sort(axes, axes + rank,
                   [](const PadAxis& a, const PadAxis& b) { return a.y_stride > b.y_stride; });
  plan.rank = 0;
  for (int d = 0; d < rank; ++d) {
    PadAxis axis = axes[d];
    while (plan.rank > 0 && can_merge(plan.axis[plan.rank - 1], axis)) {
      const PadAxis& outer = plan.axis[--plan.rank];
      axis = {outer.in * axis.in, outer.out * axis.in, outer.start * axis.in,
              axis.x_stride,      axis.y_stride,       outer.mode};
    }
    plan.axis[plan.rank++] = axis;
  }
  plan.rank = std::max(plan.rank, 1);
  return plan;
}

int64_t PadPlan::compulsory_bytes() const {
  int64_t read = 1, written = 1;
  for (int d = 0; d < rank; ++d) {
    read *= axis[d].x_stride ? axis[d].in : std::min<int64_t>(axis[d].in, 1);
    written *= axis[d].out;
  }
  return (read + written) * item_size;
}

PadValue pad_value(const char* op, Dtype dtype, double value) {
  check(is_float(dtype) || !std::isnan(value), op, ": PaddingValue is NaN; ", name_of(dtype),
        " has no such value");
  PadValue result;
  visit(dtype, AllTypes{}, [&]<class T>() {
    const T element = element_of<T>(value);
    std::memcpy(result.bytes, &element, sizeof element);
  });
  return result;
}

}  // namespace cudml
