// The merge of two parts' statistics: what a kernel reads, and every check.
#pragma once

#include "ops/strided.h"

namespace cudml {

/// Count, Mean and M2 of a part.
struct StatisticsTensors {
  const TensorDesc *count, *mean, *m2;
};

/// What a kernel reads: dimensions collapsed and sorted by a.Count's memory, the fastest last. The
/// tensors are those of a, of b and of the result.
struct MergePlan {
  static constexpr int kTensors = 9, kInputs = 6;
  using Axis = StridedAxis<kTensors>;

  Dtype dtype = Dtype::float64;
  int rank = 0;
  Axis axis[kMaxRank];
  int64_t elements = 1;

  bool is_empty() const { return elements == 0; }
  int64_t compulsory_bytes() const;
};

/// Every check of the specification, then the plan. `op` begins refusals.
MergePlan make_plan(const char* op, const StatisticsTensors& a, const StatisticsTensors& b,
                    const StatisticsTensors& result);

}  // namespace cudml
