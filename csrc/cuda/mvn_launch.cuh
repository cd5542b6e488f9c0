// The launchers of the normalization kernels, by file; `mvn` in mvn.cu chooses among them.
#pragma once

#include "cuda/launch.cuh"
#include "cuda/mvn_row_parts.cuh"

namespace cudml::cuda {

/// By the choice's kernel. Without y there is no result, only the groups' statistics.
void mvn_groups(const MvnPlan& plan, const Choice& choice, const MvnPointers& p,
                const Target& target);
void mvn_on_warps(const MvnPlan& plan, const Choice& choice, const MvnPointers& p,
                  const Target& target);
void mvn_on_blocks(const MvnPlan& plan, const Choice& choice, const MvnPointers& p,
                   const Target& target);
void mvn_in_shared(const MvnPlan& plan, const Choice& choice, const MvnPointers& p,
                   const Target& target);
void mvn_column_tiles(const MvnPlan& plan, const Choice& choice, const MvnPointers& p,
                      const Target& target);
void mvn_columns(const MvnPlan& plan, const Choice& choice, const MvnPointers& p,
                 const Target& target);
void mvn_split(const MvnPlan& plan, const Choice& choice, const MvnPointers& p,
               const Target& target);

/// The result alone, with the groups' normalizers, which both kernels number by the kept
/// dimensions.
void mvn_column_apply(const MvnPlan& plan, const MvnPointers& p, const void* normalizers,
                      const Target& target);
void mvn_split_apply(const MvnPlan& plan, const Geometry& geometry, const MvnPointers& p,
                     const void* normalizers, const Target& target);

/// Mean and variance as results, of the groups' Moments.
void mvn_statistics(const MvnPlan& plan, const Operands& operands, const void* moments,
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

/// How scale and bias stand to the rows of a plan.
template <class T>
RowParameters row_parameters(const MvnPlan& plan, const MvnRowShape& shape) {
  bool varies = false;
  for (int d = 0; d < plan.reduced_rank; ++d)
    varies |= plan.reduced[d].scale != 0 || plan.reduced[d].bias != 0;
  if (!varies) return RowParameters::same;
  const bool is_scale_packed =
      !plan.has_scale || (shape.scale.is_linear && plan.scale_dtype == dtype_of<T>);
  const bool is_bias_packed =
      !plan.has_bias || (shape.bias.is_linear && plan.bias_dtype == dtype_of<T>);
  return is_scale_packed && is_bias_packed ? RowParameters::packed : RowParameters::any;
}

/// Calls fn.operator()<T, kActivates, kParameters>() as the plan has it. Where parameters stand
/// anyhow an activation is looked at in any case: a branch more is nothing there.
template <class Fn>
void visit_mvn_rows(const MvnPlan& plan, const MvnRowShape& shape, const Fn& fn) {
  using enum RowParameters;
  const bool activates = plan.activation.kind != ActivationKind::identity;
  visit(plan.dtype, MvnTileTypes{}, [&]<class T>() {
    const RowParameters parameters = row_parameters<T>(plan, shape);
    if (parameters == any) return fn.template operator()<T, true, any>();
    if (activates && parameters == packed) return fn.template operator()<T, true, packed>();
    if (activates) return fn.template operator()<T, true, same>();
    if (parameters == packed) return fn.template operator()<T, false, packed>();
    return fn.template operator()<T, false, same>();
  });
}

}  // namespace cudml::cuda
