// The gradient of normalization by planes, of which a cell's short ones, or those of several cells,
// are taken in turn.
#include "cpu/mvn_grad/planes.h"

#include "cpu/mvn_grad/plane_cells.h"
#include "cpu/mvn_grad/short_planes.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

const MvnGradAxis& plane_of(const MvnGradPlan& plan) { return plan.reduced[plan.reduced_rank - 1]; }

}  // namespace

bool has_grad_planes(const MvnGradPlan& plan) {
  if (plan.reduced_rank == 0 || plan.is_empty()) return false;
  const MvnGradAxis& inner = plane_of(plan);
  return inner.size >= kLeastPlane && inner.x == 1 && inner.grad == 1 &&
         (inner.dx == 1 || !plan.wants_dx) && !inner.scale && !inner.totals[0] &&
         !inner.totals[1] && !(plan.has_bias && inner.bias);
}

bool has_few_grad_planes(const MvnGradPlan& plan) {
  if (!has_grad_planes(plan)) return false;
  return plan.cell_size / plane_of(plan).size <= tuning::mvn_grad::kFewPlanes;
}

bool has_short_grad_planes(const MvnGradPlan& plan) {
  using namespace tuning::mvn_grad;
  if (!has_grad_planes(plan)) return false;
  return plane_of(plan).size <= kMostShortPlane && plan.cell_size <= kMostShortCell &&
         (plan.reduced_rank == 2 || !have_planes_parameters(plan));
}

bool passes_grad_quickly(const MvnGradPlan& plan) {
  const Activation& f = plan.activation;
  return plan.kind == MvnGradKind::whole && plan.use_mean && plan.use_variance &&
         (f.kind == ActivationKind::identity || Gate<float>::suits(f) || SwishPass::suits(f));
}

template <class T>
void mvn_grad_planes(const MvnGradPlan& plan, const Operands& operands) {
  PlaneCells<T>(plan, operands).run();
}

template <class T>
void mvn_grad_short_planes(const MvnGradPlan& plan, const Operands& operands) {
  const ShortPlanes<T> planes(plan, operands);
  const PlaneCells<T> cells(plan, operands);
  if (have_planes_parameters(plan))
    run_short_planes<GroupLanes<T>>(planes, cells);
  else
    run_short_planes<CellLanes<T>>(planes, cells);
}

template void mvn_grad_planes<float>(const MvnGradPlan&, const Operands&);
template void mvn_grad_planes<double>(const MvnGradPlan&, const Operands&);
template void mvn_grad_planes<Float16>(const MvnGradPlan&, const Operands&);
template void mvn_grad_planes<BFloat16>(const MvnGradPlan&, const Operands&);
template void mvn_grad_short_planes<float>(const MvnGradPlan&, const Operands&);
template void mvn_grad_short_planes<Float16>(const MvnGradPlan&, const Operands&);
template void mvn_grad_short_planes<BFloat16>(const MvnGradPlan&, const Operands&);

}  // namespace cudml::cpu::CUDML_ISA
