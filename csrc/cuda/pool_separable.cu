// Launches pooling's separable kernel.
#include "cuda/pool_separable.cuh"

namespace cudml::cuda {

void launch_pool_separable(const PoolCall& call) {
  const PoolPlan& p = call.plan;
  visit_pooled<CommonTypes, Types<>, CommonTypes>(p, [&]<class T, Pooled kWhat>() {
    if constexpr (kWhat == Pooled::max || kWhat == Pooled::average) {
      constexpr int kN = kVector<T>;
      const SeparableTile tile = separable_tile(p);
      const auto by = [](int64_t n) { return FastDiv(uint32_t(n)); };
      const SeparableAccess access{
          tile, by(tile.units), by(tile.units * kN), by(tile.columns),
          p.axis[2].in % kN == 0 && makes_vectors(call.x, p.x, kN, sizeof(T))};
      const OutputOrder order{by(1), by(tile.across), by(tile.down), by(p.axis[0].out),
                              by(p.batch[1])};
      launch(call.choice.name, pool_separable_kernel<T, kWhat>, call.choice.geometry, call.target,
             shape_of<int32_t>(call), access, order, uint32_t(tiles_of(p, tile)),
             static_cast<const T*>(call.x), static_cast<T*>(call.y));
    }
  });
}

}  // namespace cudml::cuda
