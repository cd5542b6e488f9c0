// Launches the gradients of normalization where cells consist of packed runs.
#include "cuda/mvn_grad_part_launch.cuh"
#include "cuda/mvn_grad_pieces.cuh"

namespace cudml::cuda {

void mvn_grad_on_pieces(const MvnGradPlan& plan, const Choice& choice, const Operands& o,
                        const Target& target) {
  const MvnGradPieces cut = mvn_grad_pieces(plan);
  visit(plan.dtype, MvnGradPartTypes{}, [&]<class T>() {
    const MvnGradArgs<T> args(plan, o);
    const MvnGradPieceShape shape(plan, cut, o);
    const MvnGradSteps steps(plan, cut.parts, cut.is_constant, cut.tells_totals, o, target);
    steps.run([&](MvnGradPass pass, bool finds_pivot) {
      launch("mvn_grad_piece_sums", mvn_grad_piece_sums_kernel<T>, choice.geometry, target, args,
             shape, pass, finds_pivot, steps.states, steps.parts);
    });
    if (plan.wants_dx)
      launch("mvn_grad_piece_apply", mvn_grad_piece_apply_kernel<T>, choice.geometry, target, args,
             shape, steps.states);
  });
}

}  // namespace cudml::cuda
