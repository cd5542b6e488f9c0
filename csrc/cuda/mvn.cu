// Launches normalization: the kernel that takes any groups here, the others by their files.
#include "cuda/mvn_generic.cuh"
#include "cuda/mvn_launch.cuh"

namespace cudml::cuda {

void mvn_groups(const MvnPlan& plan, const Choice& choice, const MvnPointers& p,
                const Target& target) {
  switch (MvnKernel(choice.kernel)) {
    case MvnKernel::rows:
    case MvnKernel::warp: return mvn_on_warps(plan, choice, p, target);
    case MvnKernel::block: return mvn_on_blocks(plan, choice, p, target);
    case MvnKernel::cluster:
    case MvnKernel::shared: return mvn_in_shared(plan, choice, p, target);
    case MvnKernel::column_tile: return mvn_column_tiles(plan, choice, p, target);
    case MvnKernel::columns: return mvn_columns(plan, choice, p, target);
    case MvnKernel::split: return mvn_split(plan, choice, p, target);
    default: break;
  }
  visit(plan.dtype, FloatTypes{}, [&]<class T>() {
    launch(choice.name, mvn_generic_kernel<T>, choice.geometry, target, MvnArgs<T>(plan, p));
  });
}

void mvn(const MvnPlan& plan, const Choice& choice, const Operands& o, const Target& target) {
  if (plan.groups == 0) return;
  MvnPointers p{o.inputs[0], o.inputs[1], o.inputs[2], o.outputs[0], nullptr};
  if (plan.has_statistics())
    p.statistics = at_byte<char>(target.workspace,
                                 choice.geometry.workspace_bytes - mvn_statistics_bytes(plan));
  mvn_groups(plan, choice, p, target);
  if (plan.has_statistics()) mvn_statistics(plan, o, p.statistics, target);
}

}  // namespace cudml::cuda
