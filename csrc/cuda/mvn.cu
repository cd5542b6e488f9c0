// Launches normalization: the kernel that takes any groups here, the others by their files.
#include "cuda/mvn_generic.cuh"
#include "cuda/mvn_launch.cuh"
#include "cuda/mvn_statistics.cuh"

namespace cudml::cuda {
namespace {

/// Before y is written, which may be x.
void write_statistics(const MvnPlan& plan, const Operands& o, const MvnPointers& p,
                      const Target& target) {
  constexpr int64_t kMostBlocks = int64_t{1} << 16;
  const Geometry geometry{uint32_t(std::min(plan.groups, kMostBlocks)), uint32_t(kMvnThreads)};
  visit(plan.dtype, FloatTypes{}, [&]<class T>() {
    launch("mvn_statistics", mvn_statistics_kernel<T>, geometry, target, MvnArgs<T>(plan, p),
           MvnStatistics<Acc<T>>(plan, o));
  });
}

}  // namespace

void mvn(const MvnPlan& plan, const Choice& choice, const Operands& o, const Target& target) {
  if (plan.groups == 0) return;
  const MvnPointers p{o.inputs[0], o.inputs[1], o.inputs[2], o.outputs[0]};
  if (plan.has_statistics()) write_statistics(plan, o, p, target);
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
