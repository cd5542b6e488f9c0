// Any window with 32-bit offsets: one thread computes one output.
#pragma once

#include "cuda/grid.cuh"
#include "cuda/pool_nine.cuh"

namespace cudml::cuda {

template <class T, Pooled kWhat>
__global__ void __launch_bounds__(kPoolThreads, 3)
    pool_window_kernel(PoolShape<int32_t> shape, OutputOrder order, uint32_t outputs, const T* x,
                       T* y, void* indices) {
  constexpr bool kIsSum = kWhat == Pooled::average || kWhat == Pooled::lp;
  const bool nines = kIsSum && has_nines(shape) && (kWhat == Pooled::average || shape.p == 2);
  for (uint32_t i = loop_begin<kPoolThreads>(); i < outputs; i += loop_step<kPoolThreads>()) {
    const PoolPlaceOf<int32_t> place = order.place(i);
    if constexpr (kIsSum)
      if (nines && pool_nine<kWhat>(shape, place, x, y)) continue;
    pool_one<kWhat, Acc<T>>(shape, place, x, y, indices);
  }
}

}  // namespace cudml::cuda
