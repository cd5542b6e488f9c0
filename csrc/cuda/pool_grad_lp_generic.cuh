// Gradient of Lp pooling for any plan: 64-bit offsets, divisions, any strides, any dilation.
#pragma once

#include "cuda/grid.cuh"
#include "cuda/pool_grad_parts.cuh"
#include "math/lp_slope.h"

namespace cudml::cuda {

/// Each element of the result adds up what the windows that cover it hand to it.
template <class T>
__global__ void __launch_bounds__(kPoolGradThreads)
    lp_pool_grad_generic_kernel(PoolGradPlan plan, const T* x, LpNorms<T> norms, const T* grad,
                                T* result, int64_t elements, bool lanes) {
  const PoolPlan& f = plan.forward;
  const int64_t size[3] = {f.axis[0].in, f.axis[1].in, f.axis[2].in};
  const int64_t step = threads_in_grid();
  for (int64_t i = thread_in_grid(); i < elements; i += step) {
    const PoolPlace p = place_of(i, f.batch, size, lanes);
    const Covers slices = covers_of(f.axis[0], p.space[0]);
    const Covers rows = covers_of(f.axis[1], p.space[1]);
    const Covers columns = covers_of(f.axis[2], p.space[2]);
    const Acc<T> tap = load_as_acc(x[p.offset(f.x)]);
    GradSum<T> sum;
    for (int64_t a = slices.first; a <= slices.last; a += slices.step)
      for (int64_t b = rows.first; b <= rows.last; b += rows.step) {
        const int64_t line = p.batch_offset(f.y) + a * f.y.space[0] + b * f.y.space[1];
        const int64_t norm_line =
            p.batch_offset(f.indices) + a * f.indices.space[0] + b * f.indices.space[1];
        for (int64_t c = columns.first; c <= columns.last; c += columns.step) {
          const Acc<T> norm = f.p == 1 ? Acc<T>(1) : norms.at(norm_line + c * f.indices.space[2]);
          sum.add(lp_share(tap, norm, Acc<T>(load_as_acc(grad[line + c * f.y.space[2]])), f.p));
        }
      }
    result[p.offset(plan.result)] = sum.result();
  }
}

}  // namespace cudml::cuda
