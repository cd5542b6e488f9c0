// Bulk copies: one thread asks the copy engine for a range of the block's shared memory, and a
// barrier there says to all threads when it has come.
#pragma once

#include <cuda/ptx>

#include "cuda/cluster.cuh"

namespace cudml::cuda {

/// One range and its barrier, in shared memory; used once. Architectures without clusters have no
/// copy engine either, and no launch asks for it.
struct BulkCopy {
  uint64_t barrier;

  /// By one thread, for `bytes`, a multiple of 16, from and to multiples of 16. A barrier of the
  /// block comes before any other thread waits.
  __device__ __forceinline__ void begin(void* to, const void* from, uint32_t bytes) {
#if CUDML_HAS_CLUSTERS
    namespace ptx = ::cuda::ptx;
    ptx::mbarrier_init(&barrier, 1);
    ptx::fence_proxy_async(ptx::space_shared);  // so that the engine sees the barrier
    ptx::mbarrier_arrive_expect_tx(ptx::sem_release, ptx::scope_cta, ptx::space_shared, &barrier,
                                   bytes);
    ptx::cp_async_bulk(ptx::space_cluster, ptx::space_global, to, from, bytes, &barrier);
#endif
  }

  /// By all threads that read the range.
  __device__ __forceinline__ void wait() {
#if CUDML_HAS_CLUSTERS
    while (!::cuda::ptx::mbarrier_try_wait_parity(&barrier, 0)) {
    }
#endif
  }
};

}  // namespace cudml::cuda
