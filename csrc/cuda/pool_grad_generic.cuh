// Gradients of any plan: 64-bit offsets, divisions, any strides, any dilation.
#pragma once

#include "cuda/grid.cuh"
#include "cuda/pool_grad_parts.cuh"

namespace cudml::cuda {

/// Each element of the result gathers the gradients of the windows that cover it, each divided by
/// what its window counts.
template <class T>
__global__ void __launch_bounds__(kPoolGradThreads, 2)
    average_pool_grad_generic_kernel(PoolGradPlan plan, const T* grad, T* result, int64_t elements,
                                     bool lanes) {
  const PoolPlan& f = plan.forward;
  const int64_t size[3] = {f.axis[0].in, f.axis[1].in, f.axis[2].in};
  const int64_t step = threads_in_grid();
  for (int64_t i = thread_in_grid(); i < elements; i += step) {
    const PoolPlace p = place_of(i, f.batch, size, lanes);
    const Covers slices = covers_of(f.axis[0], p.space[0]);
    const Covers rows = covers_of(f.axis[1], p.space[1]);
    const Covers columns = covers_of(f.axis[2], p.space[2]);
    const T* const from = grad + p.batch_offset(f.y);
    GradSum<T> sum;
    for (int64_t a = slices.first; a <= slices.last; a += slices.step)
      for (int64_t b = rows.first; b <= rows.last; b += rows.step) {
        const Acc<T> count = Acc<T>(counted_at(f, 0, a) * counted_at(f, 1, b));
        const T* const row = from + a * f.y.space[0] + b * f.y.space[1];
        for (int64_t c = columns.first; c <= columns.last; c += columns.step)
          sum.add(load_as_acc(row[c * f.y.space[2]]) / (count * Acc<T>(counted_at(f, 2, c))));
      }
    result[p.offset(plan.result)] = sum.result();
  }
}

/// Winners in the workspace: 32-bit numbers, or 64-bit ones where a plane needs them. Unlike a
/// template parameter, the branch costs no second copy of each kernel.
struct Winners {
  const void* data;
  bool is_wide;

  __device__ bool is(int64_t i, uint64_t position) const {
    return is_wide ? static_cast<const uint64_t*>(data)[i] == position
                   : static_cast<const uint32_t*>(data)[i] == uint32_t(position);
  }
};

/// Each element of the result gathers the gradients of the windows that it won.
template <class T>
__global__ void __launch_bounds__(kPoolGradThreads)
    max_pool_grad_generic_kernel(PoolGradPlan plan, const T* grad, Winners winners, T* result,
                                 int64_t elements, bool lanes) {
  const PoolPlan& f = plan.forward;
  const int64_t size[3] = {f.axis[0].in, f.axis[1].in, f.axis[2].in};
  const int64_t step = threads_in_grid();
  for (int64_t i = thread_in_grid(); i < elements; i += step) {
    const PoolPlace p = place_of(i, f.batch, size, lanes);
    const Covers slices = covers_of(f.axis[0], p.space[0]);
    const Covers rows = covers_of(f.axis[1], p.space[1]);
    const Covers columns = covers_of(f.axis[2], p.space[2]);
    const uint64_t own =
        uint64_t(p.space[0] * f.flat.space[0] + p.space[1] * f.flat.space[1] + p.space[2]);
    const T* const from = grad + p.batch_offset(f.y);
    GradSum<T> sum;
    for (int64_t a = slices.first; a <= slices.last; a += slices.step)
      for (int64_t b = rows.first; b <= rows.last; b += rows.step) {
        const int64_t line =
            p.batch_offset(f.indices) + a * f.indices.space[0] + b * f.indices.space[1];
        const int64_t row = a * f.y.space[0] + b * f.y.space[1];
        for (int64_t c = columns.first; c <= columns.last; c += columns.step)
          if (winners.is(line + c * f.indices.space[2], own))
            sum.add(load_as_acc(from[row + c * f.y.space[2]]));
      }
    result[p.offset(plan.result)] = sum.result();
  }
}

}  // namespace cudml::cuda
