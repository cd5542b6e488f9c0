// Mean-variance normalization: what a caller asks for, what a kernel reads, and the rules between.
#pragma once

#include "core/tensor.h"
#include "math/activation.h"

namespace cudml {

struct MvnDesc {
  const char* op = "";
  Dims axes;  // as given: any order, negative ones already resolved; may be empty
  bool use_mean = true, use_variance = true;
  double epsilon = 1e-5;
  Activation activation;
};

/// One collapsed dimension; scale and bias strides are 0 where they broadcast.
struct MvnAxis {
  int64_t size = 1, x = 0, y = 0, scale = 0, bias = 0;
};

/// What a kernel reads: kept dimensions tell groups apart, reduced ones run through a group; both
/// collapsed and sorted by x's memory, the fastest last.
struct MvnPlan {
  Dtype dtype = Dtype::float32;
  Dtype scale_dtype = Dtype::float32, bias_dtype = Dtype::float32;
  bool has_scale = false, has_bias = false, use_mean = true, use_variance = true;
  double epsilon = 1e-5;
  Activation activation;  // parameters as D-ACT-15/16 leave them
  int kept_rank = 0, reduced_rank = 0;
  MvnAxis kept[kMaxRank], reduced[kMaxRank];
  int64_t groups = 1, group_size = 1;

  bool is_empty() const { return groups == 0; }
  int64_t compulsory_bytes() const;
};

/// Every check of the specification, then the plan; `scale` and `bias` may be null.
MvnPlan make_plan(const MvnDesc& desc, const TensorDesc& x, const TensorDesc* scale,
                  const TensorDesc* bias, const TensorDesc& y);

}  // namespace cudml
