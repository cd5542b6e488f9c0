// Clusters: blocks that run together on neighbouring multiprocessors and read each other's shared
// memory.
#pragma once

#include <cuda_runtime.h>

namespace cudml::cuda {

// Where the architecture has none no launch asks for one, and a block is alone.
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
#define CUDML_HAS_CLUSTERS 1
#else
#define CUDML_HAS_CLUSTERS 0
#endif

/// The calling block's cluster: Geometry::cluster blocks, of which `rank` is the own one.
struct Cluster {
  uint32_t blocks = 1, rank = 0;

  __device__ __forceinline__ explicit Cluster(uint32_t count)
      : blocks(count), rank(count > 1 ? blockIdx.x % count : 0) {}

  /// Publishes what the block wrote to its shared memory, and says that it reads no other's any
  /// more. All threads call it, and then wait().
  __device__ __forceinline__ void arrive() const {
#if CUDML_HAS_CLUSTERS
    if (blocks > 1) __cluster_barrier_arrive();
#endif
  }
  __device__ __forceinline__ void wait() const {
#if CUDML_HAS_CLUSTERS
    if (blocks > 1) __cluster_barrier_wait();
#endif
  }

  /// Waits for all threads of the cluster.
  __device__ __forceinline__ void sync() const {
    if (blocks == 1) return __syncthreads();
    arrive();
    wait();
  }

  /// What stands in the shared memory of block `other` where `own` stands in this one's.
  template <class V>
  __device__ __forceinline__ const V& of(const V& own, uint32_t other) const {
#if CUDML_HAS_CLUSTERS
    if (other != rank) return *static_cast<const V*>(__cluster_map_shared_rank(&own, other));
#endif
    return own;
  }
};

}  // namespace cudml::cuda
