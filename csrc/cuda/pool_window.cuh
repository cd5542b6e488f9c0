// Any window with 32-bit offsets: one thread computes one output.
#pragma once

#include "cuda/grid.cuh"
#include "cuda/pool_one.cuh"

namespace cudml::cuda {

template <class T, Pooled kWhat>
__global__ void __launch_bounds__(kPoolThreads, 3)
    pool_window_kernel(PoolShape<int32_t> shape, OutputOrder order, uint32_t outputs, const T* x,
                       T* y, void* indices) {
  for (uint32_t i = loop_begin<kPoolThreads>(); i < outputs; i += loop_step<kPoolThreads>())
    pool_one<kWhat, Acc<T>>(shape, order.place(i), x, y, indices);
}

}  // namespace cudml::cuda
