// Conversions of whole vectors between stored elements and what they are computed in, two at a
// time. They give the values of core/scalar.h.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "core/scalar.h"
#include "cuda/vector.cuh"

namespace cudml::cuda {

/// A vector of sixteen-bit floats as the registers that hold it, two in each.
template <int kN>
struct Pairs {
  uint32_t word[kN / 2];
};

/// All elements of a vector, and back; pairs are taken apart and packed without shifting.
template <class T, int kN>
__device__ __forceinline__ void widen(const Vector<T, kN>& vector, Acc<T> (&out)[kN]) {
  if constexpr (kIsHalf<T>) {
    const auto pairs = std::bit_cast<Pairs<kN>>(vector);
#pragma unroll
    for (int e = 0; e < kN; e += 2) {
      const uint32_t word = pairs.word[e / 2];
      if constexpr (std::is_same_v<T, Float16>) {
        const float2 both = __half22float2(__half2(std::bit_cast<__half2_raw>(word)));
        out[e] = both.x;
        out[e + 1] = both.y;
      } else {
        out[e] = std::bit_cast<float>(word << 16);
        out[e + 1] = std::bit_cast<float>(word & 0xffff0000u);
      }
    }
  } else {
#pragma unroll
    for (int e = 0; e < kN; ++e) out[e] = vector.v[e];
  }
}

template <class T, int kN>
__device__ __forceinline__ Vector<T, kN> narrow(const Acc<T> (&v)[kN]) {
  if constexpr (kIsHalf<T>) {
    Pairs<kN> pairs;
#pragma unroll
    for (int e = 0; e < kN; e += 2) {
      if constexpr (std::is_same_v<T, Float16>)
        pairs.word[e / 2] =
            std::bit_cast<uint32_t>(static_cast<__half2_raw>(__floats2half2_rn(v[e], v[e + 1])));
      else
        pairs.word[e / 2] = std::bit_cast<uint32_t>(
            static_cast<__nv_bfloat162_raw>(__floats2bfloat162_rn(v[e], v[e + 1])));
    }
    return std::bit_cast<Vector<T, kN>>(pairs);
  } else {
    Vector<T, kN> result;
#pragma unroll
    for (int e = 0; e < kN; ++e) result.v[e] = v[e];
    return result;
  }
}

}  // namespace cudml::cuda
