// The merge of two parts' statistics: every check, and the plan.
#include "ops/merge.h"

#include "core/layout.h"
#include "ops/mvn_checks.h"

namespace cudml {
namespace {

void check_first(const char* op, const TensorDesc& count) {
  check_type(count.dtype == Dtype::float32 || count.dtype == Dtype::float64, op,
             ": a.Count.DataType is ", name_of(count.dtype), "; it must be float32 or float64");
  check(count.rank() >= 1 && count.rank() <= kMaxRank, op, ": DimensionCount is ", count.rank(),
        "; it must be between 1 and ", kMaxRank);
  check_extent(op, "a.Count", count);
}

void check_like(const char* op, const char* field, const TensorDesc& tensor,
                const TensorDesc& count) {
  check_type(tensor.dtype == count.dtype, op, ": ", field, ".DataType is ", name_of(tensor.dtype),
             "; it must be a.Count's, ", name_of(count.dtype));
  check_sizes(op, field, tensor, count.sizes);
}

}  // namespace

MergePlan make_plan(const char* op, const StatisticsTensors& a, const StatisticsTensors& b,
                    const StatisticsTensors& result) {
  const TensorDesc& like = *a.count;
  check_first(op, like);
  check_like(op, "a.Mean", *a.mean, like);
  check_like(op, "a.M2", *a.m2, like);
  check_like(op, "b.Count", *b.count, like);
  check_like(op, "b.Mean", *b.mean, like);
  check_like(op, "b.M2", *b.m2, like);
  check_result(op, "Count", *result.count, like.dtype, "a.Count's", like.sizes);
  check_result(op, "Mean", *result.mean, like.dtype, "a.Count's", like.sizes);
  check_result(op, "M2", *result.m2, like.dtype, "a.Count's", like.sizes);
  MergePlan plan;
  plan.dtype = like.dtype;
  plan.elements = count(like.sizes);
  if (plan.is_empty()) return plan;
  const TensorDesc* const tensors[] = {a.count, a.mean,       a.m2,        b.count,  b.mean,
                                       b.m2,    result.count, result.mean, result.m2};
  for (int d = 0; d < like.rank(); ++d) {
    if (like.sizes[d] == 1) continue;
    MergePlan::Axis& axis = plan.axis[plan.rank++];
    axis.size = like.sizes[d];
    for (int t = 0; t < MergePlan::kTensors; ++t) axis.stride[t] = tensors[t]->strides[d];
  }
  plan.rank = collapse(plan.axis, plan.rank);
  return plan;
}

int64_t MergePlan::compulsory_bytes() const {
  if (is_empty()) return 0;
  int64_t n = 3 * elements;
  for (int t = 0; t < kInputs; ++t) n += distinct_elements(axis, rank, t);
  return n * int64_t(size_of(dtype));
}

}  // namespace cudml
