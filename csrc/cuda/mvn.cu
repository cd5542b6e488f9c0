// Launches normalization: the kernel that takes any groups here, the others by their files.
#include "cuda/mvn_generic.cuh"
#include "cuda/mvn_launch.cuh"

namespace cudml::cuda {

void mvn(const MvnPlan& plan, const Choice& choice, const Operands& o, const Target& target) {
  if (plan.groups == 0) return;
  const MvnPointers p{o.inputs[0], o.inputs[1], o.inputs[2], o.outputs[0]};
  // A pass of its own, before y is written, which may be x.
  if (plan.has_statistics()) mvn_statistics(plan, o, target);
  switch (MvnKernel(choice.kernel)) {
    case MvnKernel::rows:
    case MvnKernel::warp: return mvn_on_warps(plan, choice, p, target);
    case MvnKernel::block:
    case MvnKernel::shared: return mvn_on_blocks(plan, choice, p, target);
    case MvnKernel::column_tile: return mvn_column_tiles(plan, choice, p, target);
    case MvnKernel::columns: return mvn_columns(plan, choice, p, target);
    case MvnKernel::split: return mvn_split(plan, choice, p, target);
    default: break;
  }
  visit(plan.dtype, FloatTypes{}, [&]<class T>() {
    launch(choice.name, mvn_generic_kernel<T>, choice.geometry, target, MvnArgs<T>(plan, p));
  });
}

}  // namespace cudml::cuda
