// The kernels of max unpooling, first choice first, and how they cut the work.
#include "cuda/unpool_kernels.h"

#include <algorithm>

namespace cudml::cuda {

Geometry unpool_geometry(int64_t n) {
  const int64_t blocks = (n + kUnpoolThreads - 1) / kUnpoolThreads;
  return {uint32_t(std::min(blocks, kMostLoopBlocks)), kUnpoolThreads, 0, 0};
}

namespace {

Geometry generic_geometry(const UnpoolPlan& plan, const Situation&) {
  Geometry g = unpool_geometry(std::max(plan.sources(), plan.targets()));
  g.workspace_bytes = plan.targets() * (are_claims_wide(plan) ? 8 : 4);
  return g;
}

constexpr Kernel<UnpoolPlan> kKernels[] = {{"unpool_generic", {}, generic_geometry}};

}  // namespace

Kernels<UnpoolPlan> unpool_kernels() { return kKernels; }

}  // namespace cudml::cuda
