// The launchers of the normalization kernels, by file; `mvn` in mvn.cu chooses among them.
#pragma once

#include "cuda/launch.cuh"
#include "cuda/mvn_args.cuh"

namespace cudml::cuda {

void mvn_on_warps(const MvnPlan& plan, const Choice& choice, const MvnPointers& p,
                  const Target& target);
void mvn_on_blocks(const MvnPlan& plan, const Choice& choice, const MvnPointers& p,
                   const Target& target);
void mvn_column_tiles(const MvnPlan& plan, const Choice& choice, const MvnPointers& p,
                      const Target& target);
void mvn_columns(const MvnPlan& plan, const Choice& choice, const MvnPointers& p,
                 const Target& target);
void mvn_split(const MvnPlan& plan, const Choice& choice, const MvnPointers& p,
               const Target& target);

using MvnTileTypes = Types<float, Float16, BFloat16>;

/// What begins `offset` bytes into the workspace.
template <class V>
V* at_byte(void* workspace, int64_t offset) {
  return reinterpret_cast<V*>(static_cast<char*>(workspace) + offset);
}

/// A step of the choice's geometry but for its blocks.
inline Geometry with_blocks(const Geometry& geometry, int64_t blocks) {
  Geometry step = geometry;
  step.blocks = uint32_t(blocks);
  return step;
}

/// Whether scale or bias change inside a group.
inline bool varies_in_group(const MvnPlan& plan) {
  bool varies = false;
  for (int d = 0; d < plan.reduced_rank; ++d)
    varies |= plan.reduced[d].scale != 0 || plan.reduced[d].bias != 0;
  return varies;
}

/// Calls fn.operator()<T, kActivates, kVaries>() as the plan has it.
template <class Fn>
void visit_mvn(const MvnPlan& plan, const Fn& fn) {
  const bool activates = plan.activation.kind != ActivationKind::identity;
  const bool varies = varies_in_group(plan);
  visit(plan.dtype, MvnTileTypes{}, [&]<class T>() {
    if (activates && varies) return fn.template operator()<T, true, true>();
    if (activates) return fn.template operator()<T, true, false>();
    if (varies) return fn.template operator()<T, false, true>();
    return fn.template operator()<T, false, false>();
  });
}

}  // namespace cudml::cuda
