// Launches the gradients of normalization where columns side by side belong to different cells.
#include "cuda/mvn_grad_columns.cuh"
#include "cuda/mvn_grad_part_launch.cuh"

namespace cudml::cuda {

void mvn_grad_on_columns(const MvnGradPlan& plan, const Choice& choice, const Operands& o,
                         const Target& target) {
  const MvnGradColumns cut = mvn_grad_columns(plan);
  visit(plan.dtype, MvnGradPartTypes{}, [&]<class T>() {
    const MvnGradArgs<T> args(plan, o);
    const MvnGradColumnShape shape(plan, cut, o);
    const MvnGradSteps steps(plan, cut.parts, true, cut.tells_totals, o, target);
    steps.run([&](MvnGradPass pass, bool finds_pivot) {
      launch("mvn_grad_column_sums", mvn_grad_column_sums_kernel<T>, choice.geometry, target, args,
             shape, pass, finds_pivot, steps.states, steps.parts);
    });
    if (plan.wants_dx)
      launch("mvn_grad_column_apply", mvn_grad_column_apply_kernel<T>, choice.geometry, target,
             args, shape, steps.states);
  });
}

}  // namespace cudml::cuda
