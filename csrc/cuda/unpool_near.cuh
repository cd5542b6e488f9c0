// Max unpooling where source positions stand near what they name, as maxima do: a block keeps the
// claims of some elements of the result. Where one stands elsewhere, it asks for the launches of
// unpool_generic.cuh, which write the whole result again.
#pragma once

#include "cuda/shared.cuh"
#include "cuda/unpool_items.cuh"

namespace cudml::cuda {

/// Accesses of a thread that are on their way together.
inline constexpr int kUnpoolBatch = 4;

/// Claims of a chunk: one more than the highest source position that names an element, from the
/// chunk's first one on, or 0.
__device__ __forceinline__ void claim_chunk(const UnpoolPlan& plan, const UnpoolChunks& all,
                                            const UnpoolChunk& chunk, const void* indices,
                                            uint32_t* claims, uint32_t* asked) {
  constexpr int64_t kStep = kUnpoolBatch * int64_t{kUnpoolThreads};
  for (int64_t first = chunk.source + threadIdx.x; first < chunk.source_end; first += kStep) {
    uint64_t flat[kUnpoolBatch];
#pragma unroll
    for (int j = 0; j < kUnpoolBatch; ++j) {
      const int64_t i = first + j * int64_t{kUnpoolThreads};
      flat[j] = plan.limit;
      if (i < chunk.source_end) flat[j] = unpool_index(plan.index_dtype, indices, i);
    }
#pragma unroll
    for (int j = 0; j < kUnpoolBatch; ++j) {
      const int64_t i = first + j * int64_t{kUnpoolThreads};
      if (flat[j] >= plan.limit) continue;
      const int64_t at = int64_t(flat[j]) - chunk.target;
      if (at >= 0 && at < chunk.targets)
        atomicMax(&claims[at], uint32_t(i - chunk.source) + 1);
      else if (i >= chunk.own && i < chunk.own_end &&
               !all.at(all.number_of(int64_t(flat[j]))).holds(i))
        atomicMax(asked, 1u);
    }
  }
}

template <class T>
__device__ __forceinline__ void fetch_chunk(const UnpoolChunk& chunk, const uint32_t* claims,
                                            const T* x, T* y) {
  constexpr int64_t kStep = kUnpoolBatch * int64_t{kUnpoolThreads};
  for (int64_t first = threadIdx.x; first < chunk.targets; first += kStep) {
    T values[kUnpoolBatch] = {};
#pragma unroll
    for (int j = 0; j < kUnpoolBatch; ++j) {
      const int64_t at = first + j * int64_t{kUnpoolThreads};
      const uint32_t claim = at < chunk.targets ? claims[at] : 0;
      if (claim != 0) values[j] = x[chunk.source + claim - 1];
    }
#pragma unroll
    for (int j = 0; j < kUnpoolBatch; ++j) {
      const int64_t at = first + j * int64_t{kUnpoolThreads};
      if (at < chunk.targets) y[chunk.target + at] = values[j];
    }
  }
}

/// x, indices and y follow each other in memory.
__global__ void __launch_bounds__(kUnpoolThreads)
    unpool_near_kernel(UnpoolPlan plan, UnpoolChunks all, const void* indices, UnpoolItems items,
                       uint32_t* asked) {
  DYNAMIC_SHARED(claims, uint32_t);  // of kUnpoolTile elements
  for (int64_t number = blockIdx.x; number < all.count(); number += gridDim.x) {
    const UnpoolChunk chunk = all.at(number);
    for (int64_t i = threadIdx.x; i < chunk.targets; i += kUnpoolThreads) claims[i] = 0;
    __syncthreads();
    claim_chunk(plan, all, chunk, indices, claims, asked);
    __syncthreads();
    items.as_elements([&]<class T>(const T* x, T* y) { fetch_chunk(chunk, claims, x, y); });
    __syncthreads();  // before the next chunk's claims
  }
}

}  // namespace cudml::cuda
