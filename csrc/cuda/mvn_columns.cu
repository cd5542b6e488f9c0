// Launches the kernels of columns.
#include "cuda/mvn_column_tile.cuh"
#include "cuda/mvn_columns.cuh"
#include "cuda/mvn_launch.cuh"

namespace cudml::cuda {

void mvn_column_tiles(const MvnPlan& plan, const Choice& choice, const MvnPointers& p,
                      const Target& target) {
  const MvnColumnShape shape(plan, mvn_column_tiles_of(plan), p);
  visit(plan.dtype, MvnTileTypes{}, [&]<class T>() {
    const auto kernel = plan.activation.kind == ActivationKind::identity
                            ? mvn_column_tile_kernel<T, false>
                            : mvn_column_tile_kernel<T, true>;
    launch(choice.name, kernel, choice.geometry, target, MvnArgs<T>(plan, p), shape);
  });
}

void mvn_columns(const MvnPlan& plan, const Choice& choice, const MvnPointers& p,
                 const Target& target) {
  const MvnColumns columns = mvn_columns_of(plan);
  const MvnColumnShape shape(plan, columns, p);
  const MvnWorkspace workspace = mvn_column_workspace(plan, columns);
  const int64_t lanes = mvn_join_lanes(columns);
  auto* moments = at_byte<MvnColumnMoments>(target.workspace, workspace.moments);
  auto* normalizers = at_byte<Normalizer<float>>(target.workspace, workspace.normalizers);
  visit(plan.dtype, MvnTileTypes{}, [&]<class T>() {
    const MvnArgs<T> args(plan, p);
    if (plan.use_mean || plan.use_variance) {
      launch("mvn_column_moments", mvn_column_moments_kernel<T>, choice.geometry, target, args,
             shape, moments);
      launch("mvn_column_join", mvn_column_join_kernel,
             with_blocks(choice.geometry, ceil_div(plan.groups * lanes, kMvnThreads)), target,
             shape, moments, uint32_t(lanes), uint32_t(plan.groups), plan.use_variance,
             plan.epsilon, normalizers, args.statistics);
    }
  });
  if (p.y) mvn_column_apply(plan, p, normalizers, target);
}

void mvn_column_apply(const MvnPlan& plan, const MvnPointers& p, const void* normalizers,
                      const Target& target) {
  const MvnColumns columns = mvn_apply_columns_of(plan);
  const Geometry geometry = {uint32_t(columns.tiles * columns.outer * columns.parts),
                             uint32_t(kMvnThreads)};
  visit(plan.dtype, MvnTileTypes{}, [&]<class T>() {
    launch("mvn_column_apply", mvn_column_apply_kernel<T>, geometry, target, MvnArgs<T>(plan, p),
           MvnColumnShape(plan, columns, p), static_cast<const Normalizer<float>*>(normalizers));
  });
}

}  // namespace cudml::cuda
