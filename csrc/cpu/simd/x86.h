// What all levels of x86-64 have, and the file of the level that is compiled for.
#pragma once

#include <immintrin.h>

#include <bit>

#include "cpu/simd/floats.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

// Stores past the caches, at multiples of their size.
inline void stream_bits(void* p, const Vector<char, 8>& v) {
  _mm_stream_si64(static_cast<long long*>(p), std::bit_cast<long long>(v));
}
inline void stream_bits(void* p, const Vector<char, 16>& v) {
  _mm_stream_si128(static_cast<__m128i*>(p), std::bit_cast<__m128i>(v));
}
#if defined(__AVX__)
inline void stream_bits(void* p, const Vector<char, 32>& v) {
  _mm256_stream_si256(static_cast<__m256i*>(p), std::bit_cast<__m256i>(v));
}

/// dst[i] = src[which[i]] for i in [0, n) by 8 or 16 bytes, which are all read and written; `which`
/// is a multiple of 16.
template <int kBytes>
inline void pick_bytes(char* dst, const char* src, const unsigned char* which, int64_t) {
  const __m128i order = *reinterpret_cast<const __m128i*>(which);
  const auto* const from = reinterpret_cast<const __m128i*>(src);
  auto* const to = reinterpret_cast<__m128i*>(dst);
  if constexpr (kBytes == 16)
    _mm_storeu_si128(to, _mm_shuffle_epi8(_mm_loadu_si128(from), order));
  else
    _mm_storel_epi64(to, _mm_shuffle_epi8(_mm_loadl_epi64(from), order));
}

inline float widen_one(Float16 v) {
  return _mm_cvtss_f32(_mm_cvtph_ps(_mm_cvtsi32_si128(std::bit_cast<uint16_t>(v))));
}
inline Float16 narrow_one(float v) {
  const __m128i half = _mm_cvtps_ph(_mm_set_ss(v), _MM_FROUND_TO_NEAREST_INT);
  return std::bit_cast<Float16>(uint16_t(_mm_cvtsi128_si32(half)));
}
#endif
#if defined(__AVX512F__)
inline void stream_bits(void* p, const Vector<char, 64>& v) {
  _mm512_stream_si512(static_cast<__m512i*>(p), std::bit_cast<__m512i>(v));
}
#endif

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA

#if defined(__AVX512F__)
#include "cpu/simd/x86_v4.h"
#elif defined(__AVX2__)
#include "cpu/simd/x86_v3.h"
#else
#include "cpu/simd/x86_base.h"
#endif
