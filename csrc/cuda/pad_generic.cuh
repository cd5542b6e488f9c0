// Padding of any plan: 64-bit offsets, one division per element and dimension.
#pragma once

#include "cuda/grid.cuh"
#include "cuda/launch.cuh"
#include "cuda/pad_kernels.h"

namespace cudml::cuda {

template <class T>
__global__ void __launch_bounds__(kPadThreads)
    pad_generic_kernel(PadPlan plan, const T* x, T* y, T value, int64_t elements) {
  const int64_t step = threads_in_grid();
  for (int64_t i = thread_in_grid(); i < elements; i += step) {
    int64_t rest = i, from = 0, to = 0;
    bool is_constant = false;
    for (int d = plan.rank - 1; d >= 0; --d) {
      const PadAxis& a = plan.axis[d];
      const int64_t quotient = rest / a.out, at = rest - quotient * a.out;
      const int64_t source = border_index(a.mode, at - a.start, a.in);
      is_constant |= source < 0;
      from += source * a.x_stride;
      to += at * a.y_stride;
      rest = quotient;
    }
    y[to] = is_constant ? value : x[from];
  }
}

}  // namespace cudml::cuda
