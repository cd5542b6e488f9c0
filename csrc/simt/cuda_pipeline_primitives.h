// Stands in for CUDA's header of the same name: asynchronous copies into shared memory. They take
// place as late as they may, when the thread waits for them, so that what comes too early finds the
// old bytes.
#pragma once

#include <cuda_runtime.h>

#include "async_copies.h"

inline void __pipeline_memcpy_async(void* to, const void* from, size_t bytes,
                                    const char* file = __builtin_FILE(),
                                    int line = __builtin_LINE()) {
  cudml::simt::ask_copy(to, from, bytes, {file, line});
}

inline void __pipeline_commit() { cudml::simt::commit_copies(); }

/// Waits for all batches but the last `prior`.
inline void __pipeline_wait_prior(size_t prior) {
  using namespace cudml::simt;
  while (const AsyncCopy* copy = next_copy(prior)) {
    auto* to = static_cast<uint32_t*>(copy->to);
    const auto* from = static_cast<const uint32_t*>(copy->from);
    for (size_t i = 0; i < copy->bytes / 4; ++i) to[i] = from[i];
  }
}
