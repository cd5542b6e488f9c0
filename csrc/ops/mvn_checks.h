// The checks that normalization and its gradients share.
#pragma once

#include "core/tensor.h"

namespace cudml {

/// InputTensor: a float of rank 1 to 8.
void check_normalized(const char* op, const TensorDesc& x);

/// Marks the dimensions in Axes, each named once; none of them may be empty unless that is
/// permitted.
void check_axes(const char* op, const Dims& axes, const TensorDesc& x, bool may_be_empty,
                bool (&reduced)[kMaxRank]);

/// Sizes of what there is one of for each group: x's with 1 in Axes.
Dims group_sizes(const Dims& axes, const TensorDesc& x);

/// ScaleTensor and BiasTensor: broadcast to x, of x's type or FLOAT32 beside 16-bit data.
void check_parameter(const char* op, const char* field, const TensorDesc& x,
                     const TensorDesc& parameter);

/// Refuses sizes that are neither 1 nor x's.
void check_broadcast(const char* op, const char* field, const TensorDesc& x,
                     const TensorDesc& tensor);

/// Mean, Variance and sums of them: x's type, FLOAT32 or FLOAT64.
void check_wide(const char* op, const char* field, const TensorDesc& x, const TensorDesc& tensor);

/// The same of a tensor that is broadcast to x.
void check_statistic(const char* op, const char* field, const TensorDesc& x,
                     const TensorDesc& tensor);

/// Refuses other sizes.
void check_sizes(const char* op, const char* field, const TensorDesc& tensor, const Dims& sizes);

/// An output of this type, which `owner` has, and these sizes, with strides that it can have.
void check_result(const char* op, const char* field, const TensorDesc& y, Dtype dtype,
                  const char* owner, const Dims& sizes);

/// Epsilon as it is added: finite, not negative, rounded to FLOAT but for FLOAT64 data.
double checked_epsilon(const char* op, double epsilon, Dtype dtype);

/// 0 where a dimension of size 1 serves all of x's, and where there is no such tensor.
int64_t broadcast_stride(const TensorDesc* tensor, int d);

}  // namespace cudml
