// Max unpooling of any plan: source positions claim their targets, of which the highest wins
// whatever the order of threads is; then each element of the result fetches what it was given.
#pragma once

#include "cuda/unpool_items.cuh"

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

/// No claims, in as many words.
__global__ void __launch_bounds__(kUnpoolThreads)
    unpool_clear_kernel(uint32_t* claims, int64_t words, const uint32_t* asked) {
  if (is_idle(asked)) return;
  for (int64_t i = thread_in_grid(); i < words; i += threads_in_grid()) claims[i] = 0;
}

/// `is_packed`: indices follow each other in memory.
__global__ void __launch_bounds__(kUnpoolThreads)
    unpool_claim_kernel(UnpoolPlan plan, const void* indices, UnpoolClaims claims, int64_t sources,
                        bool is_packed, const uint32_t* asked) {
  if (is_idle(asked)) return;
  const int64_t step = threads_in_grid();
  for (int64_t i = thread_in_grid(); i < sources; i += step) {
    const int64_t at = is_packed ? i : source_at(plan, i).indices;
    const uint64_t flat = unpool_index(plan.index_dtype, indices, at);
    if (flat < plan.limit) claims.raise(int64_t(flat), uint64_t(i) + 1);
  }
}

/// Packed: elements follow each other in memory.
__global__ void __launch_bounds__(kUnpoolThreads)
    unpool_fetch_kernel(UnpoolPlan plan, UnpoolItems items, UnpoolClaims claims, int64_t targets,
                        bool is_x_packed, bool is_y_packed, const uint32_t* asked) {
  if (is_idle(asked)) return;
  const int64_t step = threads_in_grid();
  items.as_elements([&]<class T>(const T* x, T* y) {
    for (int64_t i = thread_in_grid(); i < targets; i += step) {
      const uint64_t claim = claims.at(i);
      T value = 0;
      if (claim != 0) {
        const int64_t position = int64_t(claim - 1);
        value = x[is_x_packed ? position : source_at(plan, position).x];
      }
      y[is_y_packed ? i : target_at(plan, i)] = value;
    }
  });
}

}  // namespace cudml::cuda
