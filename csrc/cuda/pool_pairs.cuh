// Maxima of sixteen-bit floats, two in a register.
#pragma once

#include "cuda/convert.cuh"

namespace cudml::cuda {

template <class T>
__device__ __forceinline__ uint32_t pair_of(T first, T second) {
  return uint32_t{first.bits} | uint32_t{second.bits} << 16;
}
template <class T>
__device__ __forceinline__ T half_of(uint32_t pair, int which) {
  return {uint16_t(pair >> (16 * which))};
}

/// The larger ones of two pairs: some NaN where one is NaN (D-MAX-3), of two zeros either
/// (D-MAX-6).
template <class T>
__device__ __forceinline__ uint32_t larger_pair(uint32_t a, uint32_t b) {
  using Raw = std::conditional_t<std::is_same_v<T, Float16>, __half2_raw, __nv_bfloat162_raw>;
  using Both = std::conditional_t<std::is_same_v<T, Float16>, __half2, __nv_bfloat162>;
  const auto both = [](uint32_t pair) { return Both(std::bit_cast<Raw>(pair)); };
  return std::bit_cast<uint32_t>(static_cast<Raw>(__hmax2_nan(both(a), both(b))));
}

}  // namespace cudml::cuda
