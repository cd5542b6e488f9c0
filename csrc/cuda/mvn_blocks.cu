// Launches the kernels that keep one row in a block.
#include "cuda/mvn_block.cuh"
#include "cuda/mvn_launch.cuh"

namespace cudml::cuda {

void mvn_on_blocks(const MvnPlan& plan, const Choice& choice, const MvnPointers& p,
                   const Target& target) {
  const MvnRowShape shape(plan, p);
  const bool is_shared = MvnKernel(choice.kernel) == MvnKernel::shared;
  Geometry geometry = choice.geometry;
  if (!is_shared && !shape.is_staged()) geometry.shared_bytes = 0;
  visit_mvn_rows(plan, shape, [&]<class T, bool kActivates, RowParameters kParameters>() {
    const auto kernel = is_shared ? mvn_shared_kernel<T, kParameters>
                                  : mvn_block_kernel<T, kActivates, kParameters>;
    launch(choice.name, kernel, geometry, target, MvnArgs<T>(plan, p), shape);
  });
}

}  // namespace cudml::cuda
