// Max unpooling of any plan: source positions claim their targets, of which the highest wins
// whatever the order of threads is; then each element of the result fetches what it was given.
#pragma once

#include "cuda/grid.cuh"
#include "cuda/launch.cuh"
#include "cuda/unpool_kernels.h"

namespace cudml::cuda {

/// For each element of the result, one more than the highest source position that names it, or 0:
/// 32-bit numbers, or 64-bit ones where x has more elements.
struct UnpoolClaims {
  void* data;
  bool is_wide;

  __device__ void raise(int64_t flat, uint64_t claim) const {
    if (is_wide)
      atomicMax(static_cast<unsigned long long*>(data) + flat, claim);
    else
      atomicMax(static_cast<unsigned int*>(data) + flat, uint32_t(claim));
  }
  __device__ uint64_t at(int64_t flat) const {
    return is_wide ? static_cast<const unsigned long long*>(data)[flat]
                   : static_cast<const unsigned int*>(data)[flat];
  }
};

/// A flat index; a negative one becomes a number that is out of range.
__device__ inline uint64_t unpool_index(Dtype dtype, const void* indices, int64_t offset) {
  if (dtype == Dtype::uint32) return static_cast<const uint32_t*>(indices)[offset];
  if (dtype == Dtype::int32) return uint64_t(int64_t{static_cast<const int32_t*>(indices)[offset]});
  return static_cast<const uint64_t*>(indices)[offset];
}

/// `is_packed`: indices follow each other in memory.
__global__ void __launch_bounds__(kUnpoolThreads)
    unpool_claim_kernel(UnpoolPlan plan, const void* indices, UnpoolClaims claims, int64_t sources,
                        bool is_packed) {
  const int64_t step = threads_in_grid();
  for (int64_t i = thread_in_grid(); i < sources; i += step) {
    const int64_t at = is_packed ? i : source_at(plan, i).indices;
    const uint64_t flat = unpool_index(plan.index_dtype, indices, at);
    if (flat < plan.limit) claims.raise(int64_t(flat), uint64_t(i) + 1);
  }
}

/// Packed: elements follow each other in memory.
template <class T>
__global__ void __launch_bounds__(kUnpoolThreads)
    unpool_fetch_kernel(UnpoolPlan plan, const T* x, UnpoolClaims claims, T* y, int64_t targets,
                        bool is_x_packed, bool is_y_packed) {
  const int64_t step = threads_in_grid();
  for (int64_t i = thread_in_grid(); i < targets; i += step) {
    const uint64_t claim = claims.at(i);
    T value = 0;
    if (claim != 0) {
      const int64_t position = int64_t(claim - 1);
      value = x[is_x_packed ? position : source_at(plan, position).x];
    }
    y[is_y_packed ? i : target_at(plan, i)] = value;
  }
}

}  // namespace cudml::cuda
