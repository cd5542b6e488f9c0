// What max unpooling moves: bits by their size, whatever they mean.
#pragma once

#include "cuda/grid.cuh"
#include "cuda/unpool_kernels.h"

namespace cudml::cuda {

/// A flat index; a negative one becomes a number that is out of range.
__device__ inline uint64_t unpool_index(Dtype dtype, const void* indices, int64_t offset) {
  if (dtype == Dtype::uint32) return static_cast<const uint32_t*>(indices)[offset];
  if (dtype == Dtype::int32) return uint64_t(int64_t{static_cast<const int32_t*>(indices)[offset]});
  return static_cast<const uint64_t*>(indices)[offset];
}

/// x and y as elements of some size.
struct UnpoolItems {
  const void* x;
  void* y;
  int size;

  /// Calls fn(x, y) with pointers to elements.
  template <class Fn>
  __device__ __forceinline__ void as_elements(const Fn& fn) const {
    switch (size) {
      case 1: return fn(static_cast<const uint8_t*>(x), static_cast<uint8_t*>(y));
      case 2: return fn(static_cast<const uint16_t*>(x), static_cast<uint16_t*>(y));
      case 4: return fn(static_cast<const uint32_t*>(x), static_cast<uint32_t*>(y));
      default: return fn(static_cast<const uint64_t*>(x), static_cast<uint64_t*>(y));
    }
  }
};

/// Whether a launch has nothing to do: where it is asked for, and nobody has done so.
__device__ __forceinline__ bool is_idle(const uint32_t* asked) { return asked && *asked == 0; }

}  // namespace cudml::cuda
