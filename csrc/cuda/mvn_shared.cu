// Launches the kernel that keeps rows in shared memory, of one block or of a cluster.
#include "cuda/mvn_shared.cuh"

#include "cuda/mvn_launch.cuh"

namespace cudml::cuda {

void mvn_in_shared(const MvnPlan& plan, const Choice& choice, const MvnPointers& p,
                   const Target& target) {
  const MvnRowShape shape(plan, p);
  const MvnDeal deal(mvn_split_parts(plan), choice.geometry);
  visit_mvn_rows(plan, shape, [&]<class T, bool, RowParameters kParameters>() {
    launch(choice.name, mvn_shared_kernel<T, kParameters>, choice.geometry, target,
           MvnArgs<T>(plan, p), shape, deal);
  });
}

}  // namespace cudml::cuda
