// The kernels of the gradient of padding, first choice first, and how they cut the work.
#include "cuda/pad_grad_kernels.h"

#include <algorithm>
#include <iterator>

namespace cudml::cuda {
namespace {

Geometry generic_geometry(const PadGradPlan& plan, const Situation&) {
  const int64_t blocks = (plan.elements() + kPadGradThreads - 1) / kPadGradThreads;
  return {uint32_t(std::min(blocks, kMostLoopBlocks)), kPadGradThreads, 0, 0};
}

constexpr Kernel<PadGradPlan> kKernels[] = {
    {"pad_grad_generic", {}, generic_geometry},
};
static_assert(std::size(kKernels) == size_t(PadGradKernel::count));

}  // namespace

Kernels<PadGradPlan> pad_grad_kernels() { return kKernels; }

}  // namespace cudml::cuda
