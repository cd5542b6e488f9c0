// The kernel that merges statistics, and how it cuts the work.
#include <algorithm>

#include "cuda/mvn_two_phase_kernels.h"

namespace cudml::cuda {
namespace {

Geometry merge_geometry(const MergePlan& plan, const Situation&) {
  const int64_t blocks = (plan.elements + kTwoPhaseThreads - 1) / kTwoPhaseThreads;
  return {uint32_t(std::min(blocks, kMostTwoPhaseBlocks)), uint32_t(kTwoPhaseThreads)};
}

constexpr Kernel<MergePlan> kKernels[] = {
    {"merge_generic", {}, merge_geometry},
};

}  // namespace

Kernels<MergePlan> merge_kernels() { return kKernels; }

}  // namespace cudml::cuda
