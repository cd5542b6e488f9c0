// Statistics of normalization: every check, and the plan.
#include "ops/statistics.h"

#include "ops/mvn_checks.h"

namespace cudml {
namespace {

/// The numbers up to which FLOAT32 holds all integers.
constexpr int64_t kMostFloatCount = int64_t{1} << 24;

void check_count(const StatisticsDesc& desc, int64_t count) {
  check(desc.dtype == Dtype::float64 || count <= kMostFloatCount, desc.op, ": Count is ", count,
        "; dtype float32 holds counts up to ", kMostFloatCount, ", float64 larger ones");
}

}  // namespace

StatisticsPlan make_plan(const StatisticsDesc& desc, const TensorDesc& x, const TensorDesc& count,
                         const TensorDesc& mean, const TensorDesc& m2) {
  check_normalized(desc.op, x);
  bool reduced[kMaxRank] = {};
  check_axes(desc.op, desc.axes, x, true, reduced);
  StatisticsPlan plan;
  plan.dtype = x.dtype;
  plan.result_dtype = desc.dtype;
  plan.use_mean = desc.use_mean;
  for (int d = 0; d < x.rank(); ++d) (reduced[d] ? plan.group_size : plan.groups) *= x.sizes[d];
  check_count(desc, plan.group_size);
  const Dims sizes = group_sizes(desc.axes, x);
  check_result(desc.op, "Count", count, desc.dtype, "", sizes);
  check_result(desc.op, "Mean", mean, desc.dtype, "", sizes);
  check_result(desc.op, "M2", m2, desc.dtype, "", sizes);
  for (int d = 0; d < x.rank(); ++d) {
    if (x.sizes[d] == 1) continue;
    (reduced[d] ? plan.reduced[plan.reduced_rank++] : plan.kept[plan.kept_rank++]) =
        StatisticsPlan::Axis{x.sizes[d],
                             {x.strides[d], broadcast_stride(&count, d), broadcast_stride(&mean, d),
                              broadcast_stride(&m2, d)}};
  }
  plan.kept_rank = collapse(plan.kept, plan.kept_rank);
  plan.reduced_rank = collapse(plan.reduced, plan.reduced_rank);
  return plan;
}

int64_t StatisticsPlan::compulsory_bytes() const {
  if (groups == 0) return 0;
  const int64_t x =
      distinct_elements(kept, kept_rank, kX) * distinct_elements(reduced, reduced_rank, kX);
  return (group_size ? x * int64_t(size_of(dtype)) : 0) +
         3 * groups * int64_t(size_of(result_dtype));
}

}  // namespace cudml
