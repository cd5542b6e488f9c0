// Numbers of threads and warps in a launch: the only products with sizes of blocks and grids.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "cuda/choose.h"

namespace cudml::cuda {

__device__ __forceinline__ int64_t thread_in_grid() {
  return int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
}
__device__ __forceinline__ int64_t threads_in_grid() { return int64_t{gridDim.x} * blockDim.x; }

__device__ __forceinline__ int64_t warp_in_grid() {
  return int64_t{blockIdx.x} * (blockDim.x / 32) + threadIdx.x / 32;
}

/// Of items that blocks take some at a time: a block's first one, and the step to its next ones.
__device__ __forceinline__ int64_t first_of_block(uint32_t some) {
  return int64_t{blockIdx.x} * some;
}
__device__ __forceinline__ int64_t step_of_blocks(uint32_t some) {
  return int64_t{gridDim.x} * some;
}

/// Where a thread's loop over fewer than 2^31 items begins, and its step, in blocks of kThreads.
/// The launch has at most kMostLoopBlocks of them, so that 32 bits hold every number.
template <uint32_t kThreads>
__device__ __forceinline__ uint32_t loop_begin() {
  static_assert(kMostLoopBlocks * kThreads <= int64_t{1} << 30);
  return blockIdx.x * kThreads + threadIdx.x;
}
template <uint32_t kThreads>
__device__ __forceinline__ uint32_t loop_step() {
  static_assert(kMostLoopBlocks * kThreads <= int64_t{1} << 30);
  return gridDim.x * kThreads;
}

}  // namespace cudml::cuda
