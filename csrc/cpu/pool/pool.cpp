// Forward pooling on the CPU: which part computes a plan.
#include "cpu/isa/families.h"
#include "cpu/pool/parts.h"

namespace cudml::cpu::CUDML_ISA {

void pool(const PoolPlan& plan, const void* x, void* y, void* indices) {
  if (plan.outputs() == 0) return;
  if (plan.kind == PoolKind::average) return average_values(plan, x, y);
  if (plan.kind == PoolKind::lp) return lp_values(plan, x, y);
  if (plan.with_indices) return max_winners(plan, x, y, indices);
  max_values(plan, x, y);
}

}  // namespace cudml::cpu::CUDML_ISA
