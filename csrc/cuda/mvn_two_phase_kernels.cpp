// The kernels of normalization in two phases, and how they cut the work.
#include "cuda/mvn_two_phase_kernels.h"

#include <algorithm>

namespace cudml::cuda {
namespace {

constexpr int64_t kLeastPart = 16384, kMostParts = 256;  // elements of a part; parts of a group
constexpr int64_t kMostBlocks = int64_t{1} << 16;
constexpr int64_t kLeastShared = 4;  // positions of a cell that is prepared

constexpr int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

uint32_t blocks_of(int64_t blocks) { return uint32_t(std::min(blocks, kMostBlocks)); }

Geometry statistics_geometry(const StatisticsPlan& plan, const Situation&) {
  constexpr int64_t kMomentsBytes = 32;
  const int64_t parts = statistics_parts(plan), blocks = plan.groups * parts;
  return {blocks_of(blocks), uint32_t(kTwoPhaseThreads), 0, parts > 1 ? blocks * kMomentsBytes : 0};
}

Geometry merge_geometry(const MergePlan& plan, const Situation&) {
  return {blocks_of(ceil_div(plan.elements, kTwoPhaseThreads)), uint32_t(kTwoPhaseThreads)};
}

Geometry normalize_geometry(const NormalizePlan& plan, const Situation&) {
  const NormalizeCells cells(plan);
  const int64_t number = plan.dtype == Dtype::float64 ? 8 : 4;
  return {blocks_of(ceil_div(plan.elements, kTwoPhaseThreads)), uint32_t(kTwoPhaseThreads), 0,
          are_cells_shared(plan, cells) ? cells.count * 3 * number : 0};
}

constexpr Kernel<StatisticsPlan> kStatistics[] = {
    {"statistics_generic", {}, statistics_geometry},
};
constexpr Kernel<MergePlan> kMerge[] = {
    {"merge_generic", {}, merge_geometry},
};
constexpr Kernel<NormalizePlan> kNormalize[] = {
    {"normalize_generic", {}, normalize_geometry},
};

}  // namespace

int64_t statistics_parts(const StatisticsPlan& plan) {
  return std::clamp(plan.group_size / kLeastPart, int64_t{1}, kMostParts);
}

NormalizeCells::NormalizeCells(const NormalizePlan& plan) {
  constexpr int kMean = NormalizePlan::kMean, kVariance = NormalizePlan::kVariance;
  for (int d = 0; d < plan.rank; ++d) {
    const NormalizePlan::Axis& axis = plan.axis[d];
    if (!axis.stride[kMean] && !axis.stride[kVariance]) continue;
    size[rank] = axis.size;
    mean[rank] = axis.stride[kMean];
    variance[rank++] = axis.stride[kVariance];
  }
  for (int d = plan.rank - 1; d >= 0; --d) {
    const NormalizePlan::Axis& axis = plan.axis[d];
    if (!axis.stride[kMean] && !axis.stride[kVariance]) continue;
    stride[d] = count;
    count *= axis.size;
  }
}

bool are_cells_shared(const NormalizePlan& plan, const NormalizeCells& cells) {
  return (plan.has_mean || plan.has_variance) && cells.count <= plan.elements / kLeastShared;
}

Kernels<StatisticsPlan> statistics_kernels() { return kStatistics; }
Kernels<MergePlan> merge_kernels() { return kMerge; }
Kernels<NormalizePlan> normalize_kernels() { return kNormalize; }

}  // namespace cudml::cuda
