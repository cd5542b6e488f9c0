// Keys: integers that compare as maxima do, so that one integer loop finds every type's winner.
#pragma once

#include <cstdint>
#include <limits>

#include "core/scalar.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

/// Keys of values of 8 bytes are int64, of all others int32 (D-MAX-7: nothing passes through
/// floats).
template <class T>
using Key = std::conditional_t<sizeof(T) == 8, int64_t, int32_t>;

/// Flips the magnitude of negative sign-and-magnitude numbers, so that integer order is float
/// order; the map is its own inverse.
template <class K>
HD K fold(K bits) {
  return K(bits ^ (K(bits >> (sizeof(K) * 8 - 1)) & std::numeric_limits<K>::max()));
}

/// Bits of a float whose infinity is `infinity`, in the order of its values: every NaN is the
/// largest key (D-MAX-3), and -0 stands just below +0.
template <class K>
HD K float_order(K bits, K infinity) {
  const K magnitude = K(bits & std::numeric_limits<K>::max());
  return magnitude > infinity ? std::numeric_limits<K>::max() : fold(bits);
}

/// The same with -0 equal to +0, so that the first of them wins (D-MAX-6).
template <class K>
HD K float_key(K bits, K infinity) {
  const K key = float_order(bits, infinity);
  return key == -1 ? K{0} : key;
}

template <class T>
HD Key<T> key_of(T value) {
  using K = Key<T>;
  if constexpr (std::is_same_v<T, float>) {
    return float_key<int32_t>(std::bit_cast<int32_t>(value), 0x7f800000);
  } else if constexpr (std::is_same_v<T, double>) {
    return float_key<int64_t>(std::bit_cast<int64_t>(value), 0x7ff0000000000000);
  } else if constexpr (kIsHalf<T>) {
    constexpr int16_t kInfinity = std::is_same_v<T, Float16> ? 0x7c00 : 0x7f80;
    return float_key<int16_t>(int16_t(value.bits), kInfinity);
  } else if constexpr (std::is_unsigned_v<T> && sizeof(T) == sizeof(K)) {
    return K(value ^ T(std::numeric_limits<K>::min()));
  } else {
    return K(value);
  }
}

/// Keys of n elements, `stride` apart.
template <class T>
void key_row(Key<T>* __restrict keys, const T* __restrict src, int64_t stride, int64_t n) {
  if (stride == 1) {
    for (int64_t i = 0; i < n; ++i) keys[i] = key_of(src[i]);
  } else {
    for (int64_t i = 0; i < n; ++i) keys[i] = key_of(src[i * stride]);
  }
}

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
