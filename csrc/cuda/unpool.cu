// Launches the kernels of max unpooling: bits are moved by size, whatever they mean.
#include "cuda/unpool_generic.cuh"

namespace cudml::cuda {
namespace {

/// Which of a plan's tensors follow each other in memory, by position.
struct Packed {
  bool x = true, indices = true, y = true;

  explicit Packed(const UnpoolPlan& plan) {
    int64_t sources = 1, targets = 1;
    for (int i = 2; i >= 0; --i) {
      const UnpoolSource& s = plan.source[i];
      const UnpoolTarget& t = plan.target[i];
      x &= s.size == 1 || s.x == sources;
      indices &= s.size == 1 || s.indices == sources;
      y &= t.size == 1 || t.y == targets;
      sources *= s.size;
      targets *= t.size;
    }
    for (int i = 1; i >= 0; --i) {
      const UnpoolBatch& b = plan.batch[i];
      x &= b.size == 1 || b.x == sources;
      indices &= b.size == 1 || b.indices == sources;
      y &= b.size == 1 || b.y == targets;
      sources *= b.size;
      targets *= b.size;
    }
  }
};

template <class T>
void fetch(const UnpoolPlan& plan, const Choice& choice, const void* x, const UnpoolClaims& claims,
           void* y, const Target& target) {
  const Packed packed(plan);
  launch(choice.name, unpool_fetch_kernel<T>, unpool_geometry(plan.targets()), target, plan,
         static_cast<const T*>(x), claims, static_cast<T*>(y), plan.targets(), packed.x, packed.y);
}

}  // namespace

void unpool(const UnpoolPlan& plan, const Choice& choice, const void* x, const void* indices,
            void* y, const Target& target) {
  if (plan.is_empty()) return;
  const UnpoolClaims claims{target.workspace, are_claims_wide(plan)};
  if (!target.is_rehearsal)
    check_cuda(cudaMemsetAsync(target.workspace, 0, size_t(choice.geometry.workspace_bytes),
                               static_cast<cudaStream_t>(target.stream)),
               choice.name);
  launch("unpool_claim", unpool_claim_kernel, unpool_geometry(plan.sources()), target, plan,
         indices, claims, plan.sources(), Packed(plan).indices);
  switch (plan.item_size) {
    case 1: return fetch<uint8_t>(plan, choice, x, claims, y, target);
    case 2: return fetch<uint16_t>(plan, choice, x, claims, y, target);
    case 4: return fetch<uint32_t>(plan, choice, x, claims, y, target);
    default: return fetch<uint64_t>(plan, choice, x, claims, y, target);
  }
}

}  // namespace cudml::cuda
