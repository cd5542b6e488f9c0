// Launches pooling with large windows.
#include "cuda/pool_reduce.cuh"

namespace cudml::cuda {
namespace {

template <class T, Pooled kWhat>
void launch_reduce(const PoolCall& call) {
  const PoolPlan& p = call.plan;
  const auto outputs = uint32_t(inner_outputs(p));
  const auto run = [&](const ReduceLayout& layout) {
    const uint32_t slots = kPoolThreads / layout.members;
    launch(call.choice.name, pool_reduce_kernel<T, kWhat>, call.choice.geometry, call.target,
           shape_of<int32_t>(call), order_of(p), outputs, (outputs + slots - 1) / slots, layout,
           static_cast<const T*>(call.x), static_cast<T*>(call.y), call.indices,
           call.target.workspace);
  };
  ReduceLayout layout{reduce_members(p), reduces_lanes(p)};
  const int64_t workspace = call.choice.geometry.workspace_bytes;
  if (workspace == 0) return run(layout);
  layout.pieces = uint32_t(workspace / (outputs * kReduceState));
  layout.phase = ReducePhase::pieces;
  run(layout);
  run({layout.pieces > 64 ? kPoolThreads : 32, false, layout.pieces, ReducePhase::finish});
}

}  // namespace

void launch_pool_reduce(const PoolCall& call) {
  visit_pooled<AllTypes, AllTypes, FloatTypes>(call.plan, [&]<class T, Pooled kWhat>() {
    // A winner whose index nobody wants is a maximum.
    launch_reduce<T, kWhat == Pooled::max ? Pooled::winner : kWhat>(call);
  });
}

}  // namespace cudml::cuda
