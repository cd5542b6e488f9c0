// Normalization with given statistics: what a caller asks for, what a kernel reads, and the rules
// between.
#pragma once

#include "math/activation.h"
#include "ops/strided.h"

namespace cudml {

struct NormalizeDesc {
  const char* op = "";
  double epsilon = 1e-5;
  Activation activation;
};

/// The inputs of a call; all but x may be null.
struct NormalizeTensors {
  const TensorDesc *x, *mean, *variance, *scale, *bias;
};

/// What a kernel reads: dimensions collapsed and sorted by x's memory, the fastest last.
struct NormalizePlan {
  enum Tensor { kX, kY, kMean, kVariance, kScale, kBias, kTensors };
  using Axis = StridedAxis<kTensors>;

  Dtype dtype = Dtype::float32;
  Dtype mean_dtype = Dtype::float32, variance_dtype = Dtype::float32;
  Dtype scale_dtype = Dtype::float32, bias_dtype = Dtype::float32;
  bool has_mean = false, has_variance = false, has_scale = false, has_bias = false;
  double epsilon = 1e-5;
  Activation activation;  // parameters as D-ACT-15/16 leave them
  int rank = 0;
  Axis axis[kMaxRank];
  int64_t elements = 1;

  bool is_empty() const { return elements == 0; }
  int64_t compulsory_bytes() const;
};

/// Every check of the specification, then the plan.
NormalizePlan make_plan(const NormalizeDesc& desc, const NormalizeTensors& tensors,
                        const TensorDesc& y);

}  // namespace cudml
