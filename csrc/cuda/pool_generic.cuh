// Every plan: 64-bit offsets, sums in double, one thread for one output.
#pragma once

#include "cuda/grid.cuh"
#include "cuda/pool_one.cuh"

namespace cudml::cuda {

/// Sizes of the outputs' dimensions, slowest first, as threads take them: `lanes` says that the
/// inner batch dimension comes last.
struct WideOrder {
  int64_t planes, size[3];
  bool lanes;

  __device__ PoolPlaceOf<int64_t> place(int64_t n) const {
    PoolPlaceOf<int64_t> at;
    const auto take = [&n](int64_t size) {
      const int64_t quotient = n / size, taken = n - quotient * size;
      n = quotient;
      return taken;
    };
    if (lanes) at.batch[1] = take(planes);
    for (int i = 2; i >= 0; --i) at.space[i] = take(size[i]);
    if (!lanes) at.batch[1] = take(planes);
    at.batch[0] = n;
    return at;
  }
};

template <class T, Pooled kWhat>
__global__ void __launch_bounds__(kPoolThreads, 3)
    pool_generic_kernel(PoolShape<int64_t> shape, WideOrder order, int64_t outputs, const T* x,
                        T* y, void* indices) {
  for (int64_t i = thread_in_grid(); i < outputs; i += threads_in_grid())
    pool_one<kWhat, double>(shape, order.place(i), x, y, indices);
}

}  // namespace cudml::cuda
