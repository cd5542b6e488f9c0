// Launches the kernels that work on parts of groups, step by step.
#include "cuda/mvn_launch.cuh"
#include "cuda/mvn_split.cuh"

namespace cudml::cuda {

void mvn_split(const MvnPlan& plan, const Choice& choice, const MvnPointers& p,
               const Target& target) {
  const MvnParts cut = mvn_split_parts(plan);
  const MvnWorkspace workspace = mvn_workspace(plan, plan.groups * cut.count);
  void* const normalizers = at_byte<char>(target.workspace, workspace.normalizers);
  visit(plan.dtype, FloatTypes{}, [&]<class T>() {
    using A = Acc<T>;
    if (!plan.use_mean && !plan.use_variance) return;
    const MvnArgs<T> args(plan, p);
    auto* moments = at_byte<Moments<A>>(target.workspace, workspace.moments);
    launch("mvn_split_moments", mvn_split_moments_kernel<T>, choice.geometry, target, args,
           MvnSplit(plan, p, cut), moments);
    launch("mvn_join", mvn_join_kernel<A>,
           with_blocks(choice.geometry, ceil_div(plan.groups * 32, kMvnThreads)), target, moments,
           uint32_t(cut.count), uint32_t(plan.groups), plan.use_variance, plan.epsilon,
           static_cast<Normalizer<A>*>(normalizers), args.statistics);
  });
  if (p.y) mvn_split_apply(plan, choice.geometry, p, normalizers, target);
}

void mvn_split_apply(const MvnPlan& plan, const Geometry& geometry, const MvnPointers& p,
                     const void* normalizers, const Target& target) {
  visit(plan.dtype, FloatTypes{}, [&]<class T>() {
    launch("mvn_split_apply", mvn_split_apply_kernel<T>, geometry, target, MvnArgs<T>(plan, p),
           MvnSplit(plan, p, mvn_split_parts(plan)),
           static_cast<const Normalizer<Acc<T>>*>(normalizers));
  });
}

}  // namespace cudml::cuda
