// SSE2: vectors of 16 bytes, without fused products or conversions of Float16.
#pragma once

#include "cpu/simd/x86.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

using Halves = Vector<uint16_t, 8>;

inline Vector<uint32_t> words_of(Halves v) {
  const auto halves = _mm_cvtsi64_si128(std::bit_cast<long long>(v));
  return std::bit_cast<Vector<uint32_t>>(_mm_unpacklo_epi16(halves, __m128i{}));
}
/// By way of signed numbers, which saturate otherwise.
inline Halves halves_of(Vector<uint32_t> v) {
  const auto words = std::bit_cast<__m128i>(std::bit_cast<Vector<int32_t>>(v << 16) >> 16);
  return std::bit_cast<Halves>(_mm_cvtsi128_si64(_mm_packs_epi32(words, words)));
}

inline Floats root(Floats v) { return _mm_sqrt_ps(v); }
inline Doubles root(Doubles v) { return _mm_sqrt_pd(v); }

inline Floats fused(Floats a, Floats b, Floats c) { return a * b + c; }
inline Doubles fused(Doubles a, Doubles b, Doubles c) { return a * b + c; }

/// dst[i] = src[which[i]] for i in [0, n).
template <int kBytes>
inline void pick_bytes(char* dst, const char* src, const unsigned char* which, int64_t n) {
  pick_each(dst, src, which, n);
}

/// v, which no compiler knows any more: it stays in a register.
template <class V>
inline V opaque(V v) {
  asm("" : "+x"(v));
  return v;
}

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA

#include "cpu/simd/sixteen.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

constexpr bool kNarrowsBFloat16 = false;
// Out of line: this code is kept small.
[[gnu::noinline]] inline Floats widen(Float16, Halves v) { return widened_float16(v); }
[[gnu::noinline]] inline Halves narrow(Float16, Floats v) { return narrowed_float16(v); }

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
