// Of the kernels with planted faults those of bulk copies.
#pragma once

#include <cuda/ptx>

#include "simt_cluster_faults.cuh"

namespace cudml::cuda {

namespace ptx = ::cuda::ptx;

constexpr uint32_t kTileBytes = kThreads * sizeof(int);

struct BulkTile {
  uint64_t barrier;
  int4 values[kThreads / 4];

  int at(uint32_t i) const { return reinterpret_cast<const int*>(values)[i]; }
};

// What thread 0 does to bring the block's values, and does otherwise.
struct Ask {
  bool is_shown = true;
  uint32_t expected = kTileBytes, asked = kTileBytes;
};

__device__ void ask_for(BulkTile& tile, const int* x, const Ask& ask = {}) {
  if (threadIdx.x != 0) return;
  ptx::mbarrier_init(&tile.barrier, 1);
  if (ask.is_shown) ptx::fence_proxy_async(ptx::space_shared);
  ptx::mbarrier_arrive_expect_tx(ptx::sem_release, ptx::scope_cta, ptx::space_shared, &tile.barrier,
                                 ask.expected);
  ptx::cp_async_bulk(ptx::space_cluster, ptx::space_global, tile.values, x + blockIdx.x * kThreads,
                     ask.asked, &tile.barrier);
}

__device__ void write(const BulkTile& tile, int* y) {
  y[blockIdx.x * kThreads + threadIdx.x] = tile.at(kThreads - 1 - threadIdx.x);
}

template <bool kFaulty>
__global__ void bulk_early_read_kernel(const int* x, int* y) {
  DEVICE_SHARED(tile, BulkTile);
  ask_for(tile, x);
  __syncthreads();
  if (!kFaulty) ptx::mbarrier_try_wait_parity(&tile.barrier, 0);
  write(tile, y);
  ptx::mbarrier_try_wait_parity(&tile.barrier, 0);
}

// Another thread has yet to begin the barrier.
template <bool kFaulty>
__global__ void bulk_early_wait_kernel(const int* x, int* y) {
  DEVICE_SHARED(tile, BulkTile);
  ask_for(tile, x);
  if (!kFaulty) __syncthreads();
  ptx::mbarrier_try_wait_parity(&tile.barrier, 0);
  write(tile, y);
}

template <bool kFaulty>
__global__ void bulk_left_kernel(const int* x, int* y) {
  DEVICE_SHARED(tile, BulkTile);
  ask_for(tile, x);
  __syncthreads();
  if (kFaulty) return;
  ptx::mbarrier_try_wait_parity(&tile.barrier, 0);
  write(tile, y);
}

// The barrier is memory that the thread wrote, which the copy engine does not see by itself.
template <bool kFaulty>
__global__ void bulk_unseen_kernel(const int* x, int* y) {
  DEVICE_SHARED(tile, BulkTile);
  ask_for(tile, x, {.is_shown = !kFaulty});
  __syncthreads();
  ptx::mbarrier_try_wait_parity(&tile.barrier, 0);
  write(tile, y);
}

template <bool kFaulty>
__global__ void bulk_expected_kernel(const int* x, int* y) {
  DEVICE_SHARED(tile, BulkTile);
  ask_for(tile, x, {.expected = kTileBytes + (kFaulty ? 16 : 0)});
  __syncthreads();
  ptx::mbarrier_try_wait_parity(&tile.barrier, 0);
  write(tile, y);
}

template <bool kFaulty>
__global__ void bulk_size_kernel(const int* x, int* y) {
  DEVICE_SHARED(tile, BulkTile);
  const uint32_t bytes = kTileBytes - (kFaulty ? 8 : 0);
  ask_for(tile, x, {.expected = bytes, .asked = bytes});
  __syncthreads();
  ptx::mbarrier_try_wait_parity(&tile.barrier, 0);
  write(tile, y);
}

}  // namespace cudml::cuda
