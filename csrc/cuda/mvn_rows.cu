// Launches the kernels that keep rows in the registers of a warp.
#include "cuda/mvn_launch.cuh"
#include "cuda/mvn_warp.cuh"

namespace cudml::cuda {

void mvn_on_warps(const MvnPlan& plan, const Choice& choice, const MvnPointers& p,
                  const Target& target) {
  const MvnRowShape shape(plan, p);
  const bool is_short = MvnKernel(choice.kernel) == MvnKernel::rows;
  Geometry geometry = choice.geometry;
  if (!shape.is_staged()) geometry.shared_bytes = 0;
  visit_mvn_rows(plan, shape, [&]<class T, bool kActivates, RowParameters kParameters>() {
    constexpr int kSlots = sizeof(T) == 2 ? kMvnRowsSlots16 : kMvnRowsSlots32;
    constexpr int kBatch = kMvnRowsBatchSlots / kSlots;
    // Without parameters of each element there is room for a branch.
    constexpr bool kLooks = kActivates || kParameters == RowParameters::same;
    const auto run = [&](auto kernel, int lanes) {
      launch(choice.name, kernel, geometry, target, MvnArgs<T>(plan, p), shape, lanes);
    };
    if (is_short)
      run(mvn_warp_kernel<T, kSlots, kBatch, kLooks, kParameters>, mvn_row_lanes(plan));
    else
      run(mvn_warp_kernel<T, kMvnWarpSlots, 1, kLooks, kParameters>, 32);
  });
}

}  // namespace cudml::cuda
