// Single elements in and out of the type they are computed in, by the conversions of vectors.
#pragma once

#include "cpu/simd/convert.h"

#if defined(__F16C__)
#include <immintrin.h>
#endif

namespace cudml::cpu::CUDML_ISA {
namespace {

template <class T>
inline Acc<T> load_float(const T* p) {
#if defined(__F16C__)
  if constexpr (std::is_same_v<T, Float16>)
    return _mm_cvtss_f32(_mm_cvtph_ps(_mm_cvtsi32_si128(std::bit_cast<uint16_t>(*p))));
#endif
  return load_as_acc(*p);
}

template <class T>
inline void store_float(T* p, Acc<T> value) {
#if defined(__F16C__)
  if constexpr (std::is_same_v<T, Float16>) {
    const __m128i half = _mm_cvtps_ph(_mm_set_ss(value), _MM_FROUND_TO_NEAREST_INT);
    *p = std::bit_cast<T>(uint16_t(_mm_cvtsi128_si32(half)));
    return;
  }
#endif
  *p = store_as<T>(value);
}

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
