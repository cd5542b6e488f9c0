// Launches the kernel that keeps one row in a block's registers.
#include "cuda/mvn_block.cuh"
#include "cuda/mvn_launch.cuh"

namespace cudml::cuda {

void mvn_on_blocks(const MvnPlan& plan, const Choice& choice, const MvnPointers& p,
                   const Target& target) {
  const MvnRowShape shape(plan, p);
  Geometry geometry = choice.geometry;
  if (!shape.is_staged()) geometry.shared_bytes = 0;
  visit_mvn_rows(plan, shape, [&]<class T, bool kActivates, RowParameters kParameters>() {
    launch(choice.name, mvn_block_kernel<T, kActivates, kParameters>, geometry, target,
           MvnArgs<T>(plan, p), shape);
  });
}

}  // namespace cudml::cuda
