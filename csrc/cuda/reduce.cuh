// Sums and other reductions over warps and blocks.
#pragma once

#include <cuda_runtime.h>

#include <cub/block/block_reduce.cuh>

#include "cuda/shared.cuh"

namespace cudml::cuda {

inline constexpr uint32_t kFullMask = 0xffffffff;

/// Memory for a V that no constructor runs for, as shared memory needs it.
template <class V>
struct alignas(V) Raw {
  unsigned char bytes[sizeof(V)];

  __device__ V& value() { return *reinterpret_cast<V*>(bytes); }
};

/// Two sums that are made together.
struct TwoSums {
  double first = 0, second = 0;

  __device__ __forceinline__ void operator+=(const TwoSums& other) {
    first += other.first;
    second += other.second;
  }
};

template <class V>
__device__ __forceinline__ V exchange(V value, int distance) {
  return __shfl_xor_sync(kFullMask, value, distance);
}
__device__ __forceinline__ TwoSums exchange(const TwoSums& value, int distance) {
  return {exchange(value.first, distance), exchange(value.second, distance)};
}

/// The sum over each `lanes` neighbouring lanes, a power of two, known to all of them with the same
/// bits.
template <class V>
__device__ __forceinline__ V warp_all_sum(V value, int lanes = 32) {
  for (int distance = lanes / 2; distance > 0; distance /= 2) value += exchange(value, distance);
  return value;
}

/// The sum over `warps` warps from `first` on, which the caller is one of, known to all of them;
/// every warp of the block calls it. `scratch` is shared memory for one value per warp; two calls
/// that no barrier lies between need two of them.
template <class V>
__device__ __forceinline__ V warps_all_sum(V value, Raw<V>* scratch, uint32_t first,
                                           uint32_t warps) {
  const uint32_t lane = threadIdx.x % 32;
  value = warp_all_sum(value);
  if (lane == 0) scratch[threadIdx.x / 32].value() = value;
  __syncthreads();
  return warp_all_sum(lane < warps ? scratch[first + lane].value() : V{});
}

/// The same over the block.
template <class V>
__device__ __forceinline__ V block_all_sum(V value, Raw<V>* scratch) {
  return warps_all_sum(value, scratch, 0, blockDim.x / 32);
}

/// What `op` makes of the values of all kThreads threads, in a fixed order; known to thread 0.
/// Begins with a barrier, so that calls may follow each other.
template <int kThreads, class V, class Op>
__device__ V block_reduce(V value, Op op) {
  using Reduce = cub::BlockReduce<V, kThreads>;
  DEVICE_SHARED(scratch, typename Reduce::TempStorage);
  __syncthreads();
  return Reduce(scratch).Reduce(value, op);
}

/// The same, known to all threads.
template <int kThreads, class V, class Op>
__device__ V block_all_reduce(V value, Op op) {
  DEVICE_SHARED(result, Raw<V>);
  const V reduced = block_reduce<kThreads>(value, op);
  if (threadIdx.x == 0) result.value() = reduced;
  __syncthreads();
  return result.value();
}

}  // namespace cudml::cuda
