// Statistics of normalization: what a caller asks for, what a kernel reads, and the rules between.
#pragma once

#include "ops/strided.h"

namespace cudml {

struct StatisticsDesc {
  const char* op = "";
  Dims axes;  // as given: any order, negative ones already resolved; may be empty
  bool use_mean = true;
  Dtype dtype = Dtype::float64;  // of the results
};

/// What a kernel reads: kept dimensions tell groups apart, reduced ones run through a group; both
/// collapsed and sorted by x's memory, the fastest last.
struct StatisticsPlan {
  enum Tensor { kX, kCount, kMean, kM2, kTensors };
  using Axis = StridedAxis<kTensors>;

  Dtype dtype = Dtype::float32, result_dtype = Dtype::float64;
  bool use_mean = true;
  int kept_rank = 0, reduced_rank = 0;
  Axis kept[kMaxRank], reduced[kMaxRank];
  int64_t groups = 1, group_size = 1;  // which may be 0: then every result is 0

  bool is_empty() const { return groups == 0; }
  int64_t compulsory_bytes() const;
};

/// Every check of the specification, then the plan.
StatisticsPlan make_plan(const StatisticsDesc& desc, const TensorDesc& x, const TensorDesc& count,
                         const TensorDesc& mean, const TensorDesc& m2);

}  // namespace cudml
