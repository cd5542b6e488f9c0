// The steps of the gradients of normalization by parts of cells; each is a launch.
#pragma once

#include "cuda/mvn_grad_launch.cuh"
#include "cuda/mvn_grad_parts.cuh"

namespace cudml::cuda {

/// The steps that pieces and columns share.
struct MvnGradSteps {
  const MvnGradPlan& plan;
  const MvnGradPartAxes& axes;
  const Operands& o;
  const Target& target;
  bool is_constant;      // parts hold h, not w
  bool are_totals_told;  // by the parts
  MvnGradState<float>* states;
  MvnGradPart* parts;

  MvnGradSteps(const MvnGradPlan& plan, const MvnGradPartAxes& axes, bool is_constant,
               bool are_totals_told, const Operands& o, const Target& target)
      : plan(plan),
        axes(axes),
        o(o),
        target(target),
        is_constant(is_constant),
        are_totals_told(are_totals_told),
        states(static_cast<MvnGradState<float>*>(target.workspace)),
        parts(at_byte<MvnGradPart>(target.workspace, mvn_grad_workspace(plan).total)) {}

  /// States, then totals. `sums(pass, finds_pivot)` launches a pass over the parts.
  template <class Sums>
  void run(const Sums& sums) const {
    const bool has_statistics = plan.has_own_statistics(), has_totals = tells_totals();
    const bool are_together = plan.activation.kind == ActivationKind::identity;
    if (has_statistics) {
      sums(are_together ? MvnGradPass::together : MvnGradPass::moments, plan.use_mean);
      join(true, false);
    } else {
      mvn_grad_given(plan, o, states, target);
    }
    if (plan.has_own_sums() || has_totals)
      sums(has_statistics && are_together ? MvnGradPass::rest : MvnGradPass::products, false);
    if (plan.has_own_sums()) join(false, true);
    if (has_totals)
      join_totals();
    else if (plan.has_totals())
      mvn_grad_totals(plan, o, states, target);
  }

 private:
  /// Whether the parts tell the totals.
  bool tells_totals() const { return plan.has_totals() && are_totals_told; }
  void join(bool has_moments, bool has_sums) const;
  void join_totals() const;
};

}  // namespace cudml::cuda
