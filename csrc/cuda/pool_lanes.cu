// Launches pooling of planes that lie side by side.
#include "cuda/pool_lanes.cuh"

namespace cudml::cuda {
namespace {

template <class T, Pooled kWhat, int kBytes>
void launch_lanes(const PoolCall& call) {
  constexpr int kN = kBytes / int(sizeof(T));
  const PoolPlan& p = call.plan;
  const auto outputs = [&](int i) { return FastDiv(uint32_t(p.axis[i].out)); };
  const OutputOrder order{FastDiv(uint32_t(p.batch[1] / kN)), outputs(2), outputs(1), outputs(0),
                          FastDiv(1)};
  PoolStrides strides = p.indices;
  const bool packed = strides.batch[1] == 1;
  strides.batch[1] = kN;  // from vector to vector
  launch(call.choice.name, pool_lanes_kernel<T, kN, kWhat>, call.choice.geometry, call.target,
         shape_of<int32_t>(call), order, uint32_t(inner_outputs(p) / kN),
         static_cast<const T*>(call.x), static_cast<T*>(call.y), call.indices,
         packed && makes_vectors(call.indices, strides, kN, int64_t(size_of(p.index_dtype))));
}

}  // namespace

void launch_pool_lanes(const PoolCall& call) {
  // Vectors of another length than the geometry was made for cost speed alone.
  const uintptr_t bits =
      reinterpret_cast<uintptr_t>(call.x) | reinterpret_cast<uintptr_t>(call.y) | 256;
  const int bytes = lane_bytes(call.plan, int64_t(bits & -bits));
  visit_pooled<CommonMaxTypes, CommonTypes, CommonTypes>(call.plan, [&]<class T, Pooled kWhat>() {
    if (bytes == 16)
      launch_lanes<T, kWhat, 16>(call);
    else
      launch_lanes<T, kWhat, 4>(call);
  });
}

}  // namespace cudml::cuda
