// Of the kernels with planted faults those of clusters and of asynchronous copies.
#pragma once

#include <cuda_pipeline_primitives.h>
#include <cuda_runtime.h>

#include "cuda/cluster.cuh"
#include "cuda/shared.cuh"

namespace cudml::cuda {

constexpr int kThreads = 128, kBlocks = 4, kTotal = kThreads * kBlocks;

// All blocks are one cluster, of which each writes the results of the next from its memory.
__device__ void write_next(const Cluster& cluster, const int (&tile)[kThreads], int* y) {
  const uint32_t next = (cluster.rank + 1) % kBlocks;
  y[next * kThreads + threadIdx.x] = cluster.of(tile, next)[kThreads - 1 - threadIdx.x];
}

template <bool kFaulty>
__global__ void missing_cluster_barrier_kernel(const int* x, int* y) {
  DEVICE_SHARED(tile, int[kThreads]);
  const Cluster cluster(kBlocks);
  tile[threadIdx.x] = x[blockIdx.x * kThreads + threadIdx.x];
  if (kFaulty)
    __syncthreads();
  else
    cluster.sync();
  write_next(cluster, tile, y);
  cluster.sync();
}

// Memory of a block that has returned is another's.
template <bool kFaulty>
__global__ void cluster_exit_kernel(const int* x, int* y) {
  DEVICE_SHARED(tile, int[kThreads]);
  const Cluster cluster(kBlocks);
  tile[threadIdx.x] = x[blockIdx.x * kThreads + threadIdx.x];
  cluster.sync();
  const uint32_t next = (cluster.rank + 1) % kBlocks;
  const auto* its = static_cast<const int*>(__cluster_map_shared_rank(tile, next));
  y[next * kThreads + threadIdx.x] = its[kThreads - 1 - threadIdx.x];
  if (!kFaulty) cluster.sync();
}

template <bool kFaulty>
__global__ void cluster_return_kernel(const int* x, int* y) {
  DEVICE_SHARED(tile, int[kThreads]);
  const Cluster cluster(kBlocks);
  tile[threadIdx.x] = x[blockIdx.x * kThreads + threadIdx.x];
  if (kFaulty && blockIdx.x == 2 && threadIdx.x == 5) return;
  __cluster_barrier_arrive();
  __cluster_barrier_wait();
  write_next(cluster, tile, y);
  cluster.sync();
}

template <bool kFaulty>
__global__ void cluster_arrives_twice_kernel(const int* x, int* y) {
  DEVICE_SHARED(tile, int[kThreads]);
  const Cluster cluster(kBlocks);
  tile[threadIdx.x] = x[blockIdx.x * kThreads + threadIdx.x];
  __cluster_barrier_arrive();
  if (kFaulty) __cluster_barrier_arrive();
  __cluster_barrier_wait();
  write_next(cluster, tile, y);
  cluster.sync();
}

template <bool kFaulty>
__global__ void cluster_waits_first_kernel(const int* x, int* y) {
  DEVICE_SHARED(tile, int[kThreads]);
  const Cluster cluster(kBlocks);
  tile[threadIdx.x] = x[blockIdx.x * kThreads + threadIdx.x];
  if (!kFaulty) __cluster_barrier_arrive();
  __cluster_barrier_wait();
  write_next(cluster, tile, y);
  cluster.sync();
}

template <bool kFaulty>
__global__ void cluster_rank_kernel(const int* x, int* y) {
  DEVICE_SHARED(tile, int[kThreads]);
  const Cluster cluster(kBlocks);
  tile[threadIdx.x] = x[blockIdx.x * kThreads + threadIdx.x];
  cluster.sync();
  const uint32_t last = kFaulty && threadIdx.x == 9 ? kBlocks : kBlocks - 1;
  const auto* its = static_cast<const int*>(__cluster_map_shared_rank(tile, last));
  write_next(cluster, tile, y);
  cluster.sync();
  if (its == x) y[0] = 0;
}

template <bool kFaulty>
__global__ void missing_copy_wait_kernel(const int* x, int* y) {
  DEVICE_SHARED(tile, int[kThreads]);
  DEVICE_SHARED(later, int[kThreads]);
  const int i = blockIdx.x * kThreads + threadIdx.x;
  __pipeline_memcpy_async(tile + threadIdx.x, x + i, sizeof(int));
  __pipeline_commit();
  __pipeline_memcpy_async(later + threadIdx.x, x + i, sizeof(int));
  __pipeline_commit();
  __pipeline_wait_prior(kFaulty ? 2 : 1);
  __syncthreads();
  y[i] = tile[kThreads - 1 - threadIdx.x];
  __pipeline_wait_prior(0);
}

// What a thread has waited for the others see after a barrier only.
template <bool kFaulty>
__global__ void copies_of_others_kernel(const int* x, int* y) {
  DEVICE_SHARED(tile, int[kThreads]);
  const int i = blockIdx.x * kThreads + threadIdx.x;
  __pipeline_memcpy_async(tile + threadIdx.x, x + i, sizeof(int));
  __pipeline_commit();
  __pipeline_wait_prior(0);
  if (!kFaulty) __syncthreads();
  y[i] = tile[kThreads - 1 - threadIdx.x];
}

template <bool kFaulty>
__global__ void misaligned_copy_kernel(const int* x, int* y) {
  DEVICE_SHARED(tile, int4[kThreads]);
  const int i = blockIdx.x * kThreads + threadIdx.x;
  const int from = int(blockIdx.x) * kThreads + kThreads - 1 - int(threadIdx.x);
  const int begin = kFaulty ? (from < kTotal - 4 ? from : kTotal - 4) : from & ~3;
  __pipeline_memcpy_async(tile + threadIdx.x, x + begin, sizeof(int4));
  __pipeline_commit();
  __pipeline_wait_prior(0);
  y[i] = reinterpret_cast<const int*>(tile + threadIdx.x)[from - begin];
}

}  // namespace cudml::cuda
