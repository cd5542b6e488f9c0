// Mean-variance normalization: what a caller asks for, what a kernel reads, and the rules between.
#pragma once

#include "math/activation.h"
#include "ops/strided.h"

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

/// Sorts by x's memory, fastest last, and joins neighbours that every tensor can walk as one; the
/// rank that is left.
int collapse(MvnAxis* axes, int rank);

/// The results of a call: y, and the groups' statistics where they are asked for.
struct MvnResults {
  const TensorDesc *y, *mean = nullptr, *variance = nullptr;
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

  /// Where group g's statistics go, in the type that T is computed in: its place among these
  /// dimensions, which are joined whatever `kept` is, so that y does not depend on them.
  enum Statistic { kX, kY, kMean, kVariance, kStatistics };
  bool has_mean_result = false, has_variance_result = false;
  int statistics_rank = 0;
  StridedAxis<kStatistics> statistics[kMaxRank];

  bool has_statistics() const { return has_mean_result || has_variance_result; }
  bool is_empty() const { return groups == 0; }
  int64_t compulsory_bytes() const;
};

/// What x is computed in: the type of its statistics beside the result.
constexpr Dtype statistics_dtype(Dtype x) {
  return x == Dtype::float64 ? Dtype::float64 : Dtype::float32;
}

/// Every check of the specification, then the plan; `scale` and `bias` may be null.
MvnPlan make_plan(const MvnDesc& desc, const TensorDesc& x, const TensorDesc* scale,
                  const TensorDesc* bias, const MvnResults& results);
inline MvnPlan make_plan(const MvnDesc& desc, const TensorDesc& x, const TensorDesc* scale,
                         const TensorDesc* bias, const TensorDesc& y) {
  return make_plan(desc, x, scale, bias, MvnResults{&y});
}

}  // namespace cudml
