// Launches the kernels that work on parts of groups, step by step.
#include "cuda/mvn_launch.cuh"
#include "cuda/mvn_split.cuh"

namespace cudml::cuda {

void mvn_split(const MvnPlan& plan, const Choice& choice, const MvnPointers& p,
               const Target& target) {
  const MvnParts cut = mvn_split_parts(plan);
  const MvnWorkspace workspace = mvn_workspace(plan, plan.groups * cut.count);
  const MvnSplit split(plan, p, cut);
  visit(plan.dtype, FloatTypes{}, [&]<class T>() {
    using A = Acc<T>;
    const MvnArgs<T> args(plan, p);
    auto* moments = at_byte<Moments<A>>(target.workspace, workspace.moments);
    auto* normalizers = at_byte<Normalizer<A>>(target.workspace, workspace.normalizers);
    if (plan.use_mean || plan.use_variance) {
      launch("mvn_split_moments", mvn_split_moments_kernel<T>, choice.geometry, target, args, split,
             moments);
      launch("mvn_join", mvn_join_kernel<A>,
             with_blocks(choice.geometry, ceil_div(plan.groups * 32, kMvnThreads)), target, moments,
             uint32_t(cut.count), uint32_t(plan.groups), plan.use_variance, plan.epsilon,
             normalizers, args.statistics);
    }
    launch("mvn_split_apply", mvn_split_apply_kernel<T>, choice.geometry, target, args, split,
           normalizers);
  });
}

}  // namespace cudml::cuda
