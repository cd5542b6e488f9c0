// AVX2, FMA and F16C: vectors of 32 bytes.
#pragma once

#include "cpu/simd/x86.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

using Halves = __m128i;
constexpr LaneIndices kLaneIndices = {0, 1, 2, 3, 4, 5, 6, 7};
constexpr Vector<int64_t> kDoubleIndices = {0, 1, 2, 3};

inline __m256i mask_of(Partial m) {
  return std::bit_cast<__m256i>(kLaneIndices < LaneIndices{} + int32_t(m.n));
}

inline Halves load_halves(const void* p, Whole) {
  return _mm_loadu_si128(static_cast<const __m128i*>(p));
}
inline Halves load_halves(const void* p, Partial m) {
  alignas(16) char bytes[32] = {};
  copy_short(bytes, static_cast<const char*>(p), 2 * m.n);
  return load_halves(bytes, Whole{});
}
inline void store_halves(void* p, Halves v, Whole) {
  _mm_storeu_si128(static_cast<__m128i*>(p), v);
}
inline void store_halves(void* p, Halves v, Partial m) {
  alignas(16) char bytes[32];
  store_halves(bytes, v, Whole{});
  copy_short(static_cast<char*>(p), bytes, 2 * m.n);
}

inline Floats load_wide(const float* p, Partial m) { return _mm256_maskload_ps(p, mask_of(m)); }
inline void store_narrow(float* p, Floats v, Partial m, bool = false) {
  _mm256_maskstore_ps(p, mask_of(m), v);
}

inline Floats widen(Float16, Halves v) { return _mm256_cvtph_ps(v); }
inline Floats widen(BFloat16, Halves v) {
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(v), 16));
}
constexpr bool kNarrowsBFloat16 = false;
inline Halves narrow(Float16, Floats v) { return _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT); }
// Two vectors have no conversion to BFloat16 of their own.
constexpr bool kNarrowsPairs = false;
inline bool converts_pairs() { return false; }
/// The upper halves of numbers, packed.
inline Halves upper_halves(Vector<uint32_t> v) {
  const __m256i pairs = _mm256_packus_epi32(std::bit_cast<__m256i>(v >> 16), __m256i{});
  return _mm256_castsi256_si128(_mm256_permute4x64_epi64(pairs, 0x08));
}

inline Floats fused(Floats a, Floats b, Floats c) { return _mm256_fmadd_ps(a, b, c); }
inline Doubles fused(Doubles a, Doubles b, Doubles c) { return _mm256_fmadd_pd(a, b, c); }

/// The larger one of each lane; NaN where v is, and v where both are zeros.
inline Floats at_least(Floats v, float low) { return _mm256_max_ps(broadcast(low), v); }

/// The smaller one of each lane; NaN where v is.
inline Floats at_most(Floats v, float high) { return _mm256_min_ps(broadcast(high), v); }

/// a where v's sign bit is set, else b.
inline Floats by_sign(Floats v, Floats a, Floats b) { return _mm256_blendv_ps(b, a, v); }

/// a * b, but 0 where a is.
inline Floats gated_product(Floats a, Floats b) {
  return _mm256_and_ps(_mm256_cmp_ps(a, Floats{}, _CMP_NEQ_UQ), a * b);
}

/// a / b for b in [1, 16], to a unit and a half in the last place.
inline Floats quotient(Floats a, Floats b) { return a / b; }
/// The same of 1 / b for numbers in [2^-120, 2^120].
inline Floats reciprocal(Floats b) { return 1 / b; }

inline Floats root(Floats v) { return _mm256_sqrt_ps(v); }
inline Doubles root(Doubles v) { return _mm256_sqrt_pd(v); }

inline Doubles as_doubles(HalfFloats v) { return _mm256_cvtps_pd(v); }
inline HalfFloats as_floats(Doubles v) { return _mm256_cvtpd_ps(v); }

/// Whether all lanes of a comparison hold.
inline bool all_of(Vector<int64_t> mask) {
  return _mm256_movemask_pd(std::bit_cast<__m256d>(mask)) == 0xf;
}

inline bool is_zero(Vector<uint32_t> v) {
  return _mm256_testz_si256(std::bit_cast<__m256i>(v), std::bit_cast<__m256i>(v)) != 0;
}

/// Lanes that something holds of, in any of some vectors.
using LaneSet = LaneIndices;
/// Lanes in which one of two is NaN.
inline LaneSet nan_lanes(Floats a, Floats b) {
  return std::bit_cast<LaneIndices>(_mm256_cmp_ps(a, b, _CMP_UNORD_Q));
}
inline bool is_any(LaneSet lanes) { return !is_zero(std::bit_cast<Vector<uint32_t>>(lanes)); }

/// Integers of 16 bits as such of 32.
inline LaneIndices as_words(Vector<int16_t, kVectorBytes / 2> v) {
  return std::bit_cast<LaneIndices>(_mm256_cvtepi16_epi32(std::bit_cast<__m128i>(v)));
}

/// v * 2^n for whole numbers n from -250 to 0, in two steps, since 2^n may be subnormal.
inline Floats times_power(Floats v, Floats n) {
  const auto whole = std::bit_cast<LaneIndices>(_mm256_cvtps_epi32(n)), half = whole >> 1;
  return v * std::bit_cast<Floats>((half + 127) << 23) *
         std::bit_cast<Floats>((whole - half + 127) << 23);
}

/// A line put together of 16 bits each: number i of the 32 is number which[i] of those at `a` and
/// then at `b`, or number i of those at `rest` where which[i] is negative.
inline Block<64> merged_line(const char* a, const char* b, const char* which, const char* rest) {
  return merge_each(a, b, which, rest);
}

/// A table of 2^kTableBits numbers; entry i modulo its length.
constexpr int kTableBits = 3;
inline Vector<uint32_t> looked_up(const uint32_t* table, Vector<uint32_t> i) {
  return std::bit_cast<Vector<uint32_t>>(_mm256_permutevar8x32_epi32(
      std::bit_cast<__m256i>(load_vector<Vector<uint32_t>>(table)), std::bit_cast<__m256i>(i)));
}

/// Lane l of the result is v[index[l]] where `at` has lane l, else `other`'s.
constexpr bool kPermutes = true;
inline Floats permuted(Floats other, Floats v, LaneIndices index, LaneIndices at) {
  const __m256 moved = _mm256_permutevar8x32_ps(v, std::bit_cast<__m256i>(index));
  return _mm256_blendv_ps(other, moved, std::bit_cast<__m256>(at));
}

/// Lane l of the result is lane index[l], modulo the lanes of both, of a's and then b's.
inline Floats lanes_of(Floats a, Floats b, LaneIndices index) {
  const auto at = std::bit_cast<__m256i>(index);
  return _mm256_blendv_ps(_mm256_permutevar8x32_ps(a, at), _mm256_permutevar8x32_ps(b, at),
                          std::bit_cast<__m256>(index << 28));
}

/// v, which no compiler knows any more: it stays in a register.
template <class V>
inline V opaque(V v) {
  asm("" : "+x"(v));
  return v;
}

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
