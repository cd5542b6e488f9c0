// Rows of elements in and out of the type they are computed in, by the processor's conversions.
#pragma once

#include <cstdint>

#if defined(__F16C__)
#include <immintrin.h>
#endif

#include "core/scalar.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

/// Converts the leading part of a packed row that whole vectors cover; returns its length.
inline int64_t load_vectors([[maybe_unused]] float* __restrict dst,
                            [[maybe_unused]] const Float16* __restrict src,
                            [[maybe_unused]] int64_t n) {
  int64_t i = 0;
#if defined(__AVX512F__)
  for (; i + 16 <= n; i += 16) {
    const __m256i half = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(src + i));
    _mm512_storeu_ps(dst + i, _mm512_maskz_cvtph_ps(0xffff, half));
  }
#elif defined(__F16C__)
  for (; i + 8 <= n; i += 8) {
    const __m128i half = _mm_loadu_si128(reinterpret_cast<const __m128i*>(src + i));
    _mm256_storeu_ps(dst + i, _mm256_cvtph_ps(half));
  }
#endif
  return i;
}

inline int64_t store_vectors([[maybe_unused]] Float16* __restrict dst,
                             [[maybe_unused]] const float* __restrict src,
                             [[maybe_unused]] int64_t n) {
  int64_t i = 0;
#if defined(__AVX512F__)
  for (; i + 16 <= n; i += 16) {
    const __m256i half = _mm512_maskz_cvtps_ph(0xffff, _mm512_loadu_ps(src + i),
                                               _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(dst + i), half);
  }
#elif defined(__F16C__)
  for (; i + 8 <= n; i += 8) {
    const __m128i half = _mm256_cvtps_ph(_mm256_loadu_ps(src + i), _MM_FROUND_TO_NEAREST_INT);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(dst + i), half);
  }
#endif
  return i;
}

/// dst[i] = src[i * stride] for i in [0, n), widened to the type T is computed in. The rows must
/// not overlap.
template <class T>
inline void load_row(Acc<T>* __restrict dst, const T* __restrict src, int64_t stride, int64_t n) {
  if (stride == 1) {
    int64_t i = 0;
    if constexpr (std::is_same_v<T, Float16>) i = load_vectors(dst, src, n);
    for (; i < n; ++i) dst[i] = load_as_acc(src[i]);
    return;
  }
  for (int64_t i = 0; i < n; ++i) dst[i] = load_as_acc(src[i * stride]);
}

/// dst[i * stride] = src[i] for i in [0, n), rounded once. The rows must not overlap.
template <class T>
inline void store_row(T* __restrict dst, int64_t stride, const Acc<T>* __restrict src, int64_t n) {
  if (stride == 1) {
    int64_t i = 0;
    if constexpr (std::is_same_v<T, Float16>) i = store_vectors(dst, src, n);
    for (; i < n; ++i) dst[i] = store_as<T>(src[i]);
    return;
  }
  for (int64_t i = 0; i < n; ++i) dst[i * stride] = store_as<T>(src[i]);
}

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
