// NEON of aarch64: vectors of 16 bytes, fused products, conversions of Float16, and of BFloat16
// where the compiler is told that they are there.
#pragma once

#include <arm_neon.h>

#include <bit>

#include "cpu/simd/floats.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

using Halves = Vector<uint16_t, 8>;

inline Vector<uint32_t> words_of(Halves v) {
  return std::bit_cast<Vector<uint32_t>>(vmovl_u16(std::bit_cast<uint16x4_t>(v)));
}
inline Halves halves_of(Vector<uint32_t> v) {
  return std::bit_cast<Halves>(vmovn_u32(std::bit_cast<uint32x4_t>(v)));
}

// Which stores pass the caches the processor itself decides.
template <class V>
inline void stream_bits(void* p, const V& v) {
  store_vector(static_cast<char*>(p), v);
}

inline Floats root(Floats v) {
  return std::bit_cast<Floats>(vsqrtq_f32(std::bit_cast<float32x4_t>(v)));
}
inline Doubles root(Doubles v) {
  return std::bit_cast<Doubles>(vsqrtq_f64(std::bit_cast<float64x2_t>(v)));
}

inline Floats fused(Floats a, Floats b, Floats c) {
  return std::bit_cast<Floats>(vfmaq_f32(
      std::bit_cast<float32x4_t>(c), std::bit_cast<float32x4_t>(a), std::bit_cast<float32x4_t>(b)));
}
inline Doubles fused(Doubles a, Doubles b, Doubles c) {
  return std::bit_cast<Doubles>(vfmaq_f64(
      std::bit_cast<float64x2_t>(c), std::bit_cast<float64x2_t>(a), std::bit_cast<float64x2_t>(b)));
}

inline Floats widen(Float16, Halves v) {
  return std::bit_cast<Floats>(vcvt_f32_f16(std::bit_cast<float16x4_t>(v)));
}
inline Halves narrow(Float16, Floats v) {
  return std::bit_cast<Halves>(vcvt_f16_f32(std::bit_cast<float32x4_t>(v)));
}

// One vector as BFloat16, by rounding to even.
#if defined(__ARM_FEATURE_BF16_VECTOR_ARITHMETIC)
constexpr bool kNarrowsBFloat16 = true;
inline Halves narrow_as(BFloat16, Floats v) {
  return std::bit_cast<Halves>(vcvt_bf16_f32(std::bit_cast<float32x4_t>(v)));
}
#else
constexpr bool kNarrowsBFloat16 = false;
#endif

/// dst[i] = src[which[i]] for i in [0, n) by 8 or 16 bytes, which are all read and written.
template <int kBytes>
inline void pick_bytes(char* dst, const char* src, const unsigned char* which, int64_t) {
  uint8x16_t bytes = {};
  std::memcpy(&bytes, src, kBytes);
  bytes = vqtbl1q_u8(bytes, vld1q_u8(which));
  std::memcpy(dst, &bytes, kBytes);
}

/// v, which no compiler knows any more: it stays in a register.
template <class V>
inline V opaque(V v) {
  asm("" : "+w"(v));
  return v;
}

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA

#include "cpu/simd/sixteen.h"
