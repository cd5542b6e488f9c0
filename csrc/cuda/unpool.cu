// Launches the kernels of max unpooling.
#include <algorithm>

#include "cuda/launch.cuh"
#include "cuda/unpool_generic.cuh"
#include "cuda/unpool_near.cuh"

namespace cudml::cuda {
namespace {

/// Of launches that have mostly nothing to do.
Geometry idle_geometry(int64_t n) {
  constexpr int64_t kBlocks = 2048;
  return unpool_geometry(std::min(n, kBlocks * int64_t{kUnpoolThreads}));
}

/// The claims of all source positions, then the result: where `asked` says so, if it is not null.
void launch_claims(const UnpoolPlan& plan, const char* name, const UnpoolItems& items,
                   const void* indices, const UnpoolClaims& claims, const uint32_t* asked,
                   const Target& target) {
  const UnpoolPacked packed(plan);
  const auto geometry = asked ? idle_geometry : unpool_geometry;
  const int64_t words = plan.targets() * (claims.is_wide ? 2 : 1);
  launch("unpool_clear", unpool_clear_kernel, geometry(words), target,
         static_cast<uint32_t*>(claims.data), words, asked);
  launch("unpool_claim", unpool_claim_kernel, geometry(plan.sources()), target, plan, indices,
         claims, plan.sources(), packed.indices, asked);
  launch(name, unpool_fetch_kernel, geometry(plan.targets()), target, plan, items, claims,
         plan.targets(), packed.x, packed.y, asked);
}

}  // namespace

void unpool(const UnpoolPlan& plan, const Choice& choice, const void* x, const void* indices,
            void* y, const Target& target) {
  if (plan.is_empty()) return;
  const UnpoolItems items{x, y, plan.item_size};
  const UnpoolClaims claims{static_cast<char*>(target.workspace) + kUnpoolFlagBytes,
                            are_claims_wide(plan)};
  if (choice.kernel != int(UnpoolKernel::near))
    return launch_claims(plan, choice.name, items, indices, claims, nullptr, target);
  auto* const asked = static_cast<uint32_t*>(target.workspace);
  if (!target.is_rehearsal)
    check_cuda(
        cudaMemsetAsync(asked, 0, sizeof(uint32_t), static_cast<cudaStream_t>(target.stream)),
        choice.name);
  launch(choice.name, unpool_near_kernel, choice.geometry, target, plan, UnpoolChunks(plan),
         indices, items, asked);
  launch_claims(plan, "unpool_fetch", items, indices, claims, asked, target);
}

}  // namespace cudml::cuda
