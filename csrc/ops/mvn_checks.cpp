// The checks that normalization and its gradients share.
#include "ops/mvn_checks.h"

#include <cmath>

#include "core/layout.h"

namespace cudml {

void check_normalized(const char* op, const TensorDesc& x) {
  check_type(is_float(x.dtype), op, ": InputTensor.DataType is ", name_of(x.dtype),
             "; it must be float32, float16, bfloat16 or float64");
  check(x.rank() >= 1 && x.rank() <= kMaxRank, op, ": DimensionCount is ", x.rank(),
        "; it must be between 1 and ", kMaxRank);
  check_extent(op, "InputTensor", x);
}

void check_axes(const char* op, const Dims& axes, const TensorDesc& x, bool may_be_empty,
                bool (&reduced)[kMaxRank]) {
  for (int i = 0; i < axes.rank; ++i) {
    const int64_t axis = axes[i];
    check(axis >= 0 && axis < x.rank(), op, ": Axes[", i, "] is ", axis,
          "; it must be between 0 and ", x.rank() - 1, " (InputTensor has ", x.rank(),
          " dimensions)");
    check(!reduced[axis], op, ": Axes[", i, "] is ", axis, "; every axis may be named once only");
    check(may_be_empty || x.sizes[int(axis)] > 0, op, ": InputTensor.Sizes[", axis,
          "] is 0; a dimension in Axes must not be empty");
    reduced[axis] = true;
  }
}

Dims group_sizes(const Dims& axes, const TensorDesc& x) {
  Dims sizes = x.sizes;
  for (const int64_t axis : axes)
    if (axis >= 0 && axis < sizes.rank) sizes[int(axis)] = 1;
  return sizes;
}

void check_broadcast(const char* op, const char* field, const TensorDesc& x,
                     const TensorDesc& tensor) {
  check(tensor.rank() == x.rank(), op, ": ", field, ".DimensionCount is ", tensor.rank(),
        "; it must be InputTensor's, ", x.rank(), ", with a size of 1 where it repeats");
  for (int d = 0; d < x.rank(); ++d)
    check(tensor.sizes[d] == x.sizes[d] || tensor.sizes[d] == 1, op, ": ", field, ".Sizes[", d,
          "] is ", tensor.sizes[d], "; it must be 1",
          x.sizes[d] == 1 ? "" : join(" or ", x.sizes[d], ", InputTensor's size"));
  check_extent(op, field, tensor);
}

void check_parameter(const char* op, const char* field, const TensorDesc& x,
                     const TensorDesc& parameter) {
  const bool is_mixed = parameter.dtype == Dtype::float32 &&
                        (x.dtype == Dtype::float16 || x.dtype == Dtype::bfloat16);
  check_type(parameter.dtype == x.dtype || is_mixed, op, ": ", field, ".DataType is ",
             name_of(parameter.dtype), "; it must be InputTensor's, ", name_of(x.dtype),
             size_of(x.dtype) == 2 ? ", or float32" : "");
  check_broadcast(op, field, x, parameter);
}

void check_wide(const char* op, const char* field, const TensorDesc& x, const TensorDesc& tensor) {
  const bool is_permitted =
      tensor.dtype == x.dtype || tensor.dtype == Dtype::float32 || tensor.dtype == Dtype::float64;
  const bool is_half = size_of(x.dtype) == 2;  // the others are among the two
  check_type(is_permitted, op, ": ", field, ".DataType is ", name_of(tensor.dtype), "; it must be ",
             is_half ? "InputTensor's, " : "", is_half ? name_of(x.dtype) : "", is_half ? ", " : "",
             "float32 or float64");
}

void check_statistic(const char* op, const char* field, const TensorDesc& x,
                     const TensorDesc& tensor) {
  check_wide(op, field, x, tensor);
  check_broadcast(op, field, x, tensor);
}

void check_sizes(const char* op, const char* field, const TensorDesc& tensor, const Dims& sizes) {
  check(tensor.rank() == sizes.rank, op, ": ", field, ".Sizes are ", tensor.sizes,
        "; they must be ", sizes);
  for (int d = 0; d < sizes.rank; ++d)
    check(tensor.sizes[d] == sizes[d], op, ": ", field, ".Sizes[", d, "] is ", tensor.sizes[d],
          "; it must be ", sizes[d]);
  check_extent(op, field, tensor);
}

void check_result(const char* op, const char* field, const TensorDesc& y, Dtype dtype,
                  const char* owner, const Dims& sizes) {
  check_type(y.dtype == dtype, op, ": ", field, ".DataType is ", name_of(y.dtype), "; it must be ",
             owner, *owner ? ", " : "", name_of(dtype));
  check_sizes(op, field, y, sizes);
  check_output_strides(op, field, y);
}

double checked_epsilon(const char* op, double given, Dtype dtype) {
  const double epsilon = dtype == Dtype::float64 ? given : double(static_cast<float>(given));
  check(std::isfinite(epsilon) && epsilon >= 0, op, ": Epsilon is ", given, "; it must be finite",
        dtype == Dtype::float64 ? "" : " as a FLOAT", " and not negative");
  return epsilon;
}

int64_t broadcast_stride(const TensorDesc* tensor, int d) {
  return tensor && tensor->sizes[d] > 1 ? tensor->strides[d] : 0;
}

}  // namespace cudml
