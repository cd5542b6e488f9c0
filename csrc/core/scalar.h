// Sixteen-bit floats, their conversions (round to nearest even), and the type sums are kept in.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "core/hd.h"

#if defined(__CUDACC__)
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#endif

namespace cudml {

struct Float16 {
  uint16_t bits;
};
struct BFloat16 {
  uint16_t bits;
};

template <class T>
inline constexpr bool kIsHalf = std::is_same_v<T, Float16> || std::is_same_v<T, BFloat16>;
template <class T>
inline constexpr bool kIsFloat = std::is_floating_point_v<T> || kIsHalf<T>;

/// What T is computed in: FLOAT32 for sixteen-bit floats, T itself otherwise.
template <class T>
using Acc = std::conditional_t<kIsHalf<T>, float, T>;

// On a device the conversions are its instructions, which round alike; a NaN becomes some NaN.
HD float to_float(Float16 h) {
#if defined(__CUDA_ARCH__)
  return __half2float(__ushort_as_half(h.bits));
#else
  const uint32_t sign = uint32_t(h.bits & 0x8000u) << 16, magnitude = h.bits & 0x7fffu;
  if (magnitude >= 0x7c00u)  // infinity or NaN: keep the payload
    return std::bit_cast<float>(sign | 0x7f800000u | (magnitude & 0x3ffu) << 13);
  // Placing the bits 13 to the left divides the value by 2^112; subnormals come out right too.
  const float value = std::bit_cast<float>(magnitude << 13) * 0x1p112f;
  return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(value));
#endif
}

HD float to_float(BFloat16 b) { return std::bit_cast<float>(uint32_t(b.bits) << 16); }

HD Float16 to_float16(float value) {
#if defined(__CUDA_ARCH__)
  return {__half_as_ushort(__float2half_rn(value))};
#else
  const uint32_t bits = std::bit_cast<uint32_t>(value), sign = bits >> 16 & 0x8000u;
  const uint32_t magnitude = bits & 0x7fffffffu;
  uint32_t result;
  if (magnitude > 0x7f800000u) {
    result = 0x7e00u | (magnitude >> 13 & 0x3ffu);
  } else if (magnitude >= 0x477ff000u) {  // 65520 and above round to infinity
    result = 0x7c00u;
  } else if (magnitude < 0x38800000u) {  // below 2^-14: adding 0.5 rounds to a multiple of 2^-24
    result = std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) + 0.5f) - 0x3f000000u;
  } else {
    result = (magnitude - 0x38000000u + 0xfffu + (magnitude >> 13 & 1u)) >> 13;
  }
  return {uint16_t(sign | result)};
#endif
}

HD BFloat16 to_bfloat16(float value) {
#if defined(__CUDA_ARCH__)
  return {__bfloat16_as_ushort(__float2bfloat16_rn(value))};
#else
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return {uint16_t(bits >> 16 | 0x40u)};
  return {uint16_t((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16)};
#endif
}

template <class T>
HD Acc<T> load_as_acc(T value) {
  if constexpr (kIsHalf<T>)
    return to_float(value);
  else
    return value;
}

template <class T>
HD T store_as(Acc<T> value) {
  if constexpr (std::is_same_v<T, Float16>)
    return to_float16(value);
  else if constexpr (std::is_same_v<T, BFloat16>)
    return to_bfloat16(value);
  else
    return value;
}

}  // namespace cudml
