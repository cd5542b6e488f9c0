// AVX-512: vectors of 64 bytes, parts of them by masks.
#pragma once

#include <type_traits>

#include "cpu/simd/x86.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

using Halves = __m256i;
constexpr LaneIndices kLaneIndices = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
constexpr Vector<int64_t> kDoubleIndices = {0, 1, 2, 3, 4, 5, 6, 7};

inline __mmask16 mask_of(Partial m) { return __mmask16((1u << m.n) - 1); }

inline Halves load_halves(const void* p, Whole) {
  return _mm256_loadu_si256(static_cast<const __m256i*>(p));
}
inline Halves load_halves(const void* p, Partial m) {
  return _mm256_maskz_loadu_epi16(mask_of(m), p);
}
inline void store_halves(void* p, Halves v, Whole) {
  _mm256_storeu_si256(static_cast<__m256i*>(p), v);
}
inline void store_halves(void* p, Halves v, Partial m) {
  _mm256_mask_storeu_epi16(p, mask_of(m), v);
}

inline Floats load_wide(const float* p, Partial m) { return _mm512_maskz_loadu_ps(mask_of(m), p); }
inline void store_narrow(float* p, Floats v, Partial m, bool = false) {
  _mm512_mask_storeu_ps(p, mask_of(m), v);
}

inline Floats widen(Float16, Halves v) { return _mm512_maskz_cvtph_ps(0xffff, v); }
/// Each pair of numbers from and to one shuffle, which costs less than a shift beside it.
constexpr Vector<int16_t> kSpread = {0, 0, 0, 1, 0, 2,  0, 3,  0, 4,  0, 5,  0, 6,  0, 7,
                                     0, 8, 0, 9, 0, 10, 0, 11, 0, 12, 0, 13, 0, 14, 0, 15};
constexpr Vector<int16_t> kUpper = {1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31};
inline Floats widen(BFloat16, Halves v) {
  return _mm512_castsi512_ps(
      _mm512_maskz_permutexvar_epi16(0xaaaaaaaa, std::bit_cast<__m512i>(kSpread),
                                     _mm512_maskz_inserti64x4(0xff, __m512i{}, v, 0)));
}
constexpr bool kNarrowsBFloat16 = false;
inline Halves narrow(Float16, Floats v) {
  return _mm512_maskz_cvtps_ph(0xffff, v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
/// Where the halves of the numbers of two vectors stand.
constexpr Vector<int16_t> kUpperOfTwo = {1,  3,  5,  7,  9,  11, 13, 15, 17, 19, 21,
                                         23, 25, 27, 29, 31, 33, 35, 37, 39, 41, 43,
                                         45, 47, 49, 51, 53, 55, 57, 59, 61, 63};
constexpr Vector<int16_t> kLowerOfTwo = kUpperOfTwo - 1;
constexpr bool kNarrowsPairs = true;
/// Whether the processor has AVX512-BF16, whose conversion takes subnormal numbers for 0.
inline bool converts_pairs() { return __builtin_cpu_supports("avx512bf16") != 0; }
inline bool is_any_subnormal(Floats a, Floats b) {
  constexpr int kSubnormal = 0x20;
  return _kortestz_mask16_u8(_mm512_fpclass_ps_mask(a, kSubnormal),
                             _mm512_fpclass_ps_mask(b, kSubnormal)) == 0;
}
/// Two vectors as BFloat16. Rounding adds to a number's upper half what is carried out of its lower
/// half + 0x7fff + the upper half's last bit: an average of 16 bits keeps that as its first bit. A
/// computed NaN is quiet, so its upper half stays NaN unless a carry runs over its last value.
inline __m512i rounded_pair(Floats a, Floats b, bool are_numbers) {
  const __m512i x = std::bit_cast<__m512i>(a), y = std::bit_cast<__m512i>(b);
  const __m512i upper = _mm512_permutex2var_epi16(x, std::bit_cast<__m512i>(kUpperOfTwo), y),
                lower = _mm512_permutex2var_epi16(x, std::bit_cast<__m512i>(kLowerOfTwo), y);
  const __m512i odd = (upper & _mm512_set1_epi16(1)) | _mm512_set1_epi16(0x7ffe);
  const __m512i carry = _mm512_srli_epi16(_mm512_avg_epu16(lower, odd), 15);
  if (are_numbers) return _mm512_add_epi16(upper, carry);
  const __mmask32 can_count =
      _mm512_cmpneq_epi16_mask(upper | _mm512_set1_epi16(-0x8000), _mm512_set1_epi16(-1));
  return _mm512_mask_add_epi16(upper, can_count, upper, carry);
}
/// The same, out of the way of registers.
[[gnu::noinline, gnu::cold]] inline __m512i rare_pair(Floats a, Floats b) {
  return rounded_pair(a, b, false);
}
/// The same by the processor's conversion, if `converts`, which std::true_type says it always does.
template <class Converts>
inline Vector<char> narrow_pair(Floats a, Floats b, bool are_numbers, Converts converts) {
  if (converts & !is_any_subnormal(a, b)) [[likely]] {  // one branch
    __m512i both;  // by its name, since this code is for processors without it, too
    asm("vcvtne2ps2bf16 %1, %2, %0" : "=v"(both) : "v"(a), "v"(b));
    return std::bit_cast<Vector<char>>(both);
  }
  if constexpr (std::is_same_v<Converts, bool>)
    return std::bit_cast<Vector<char>>(rounded_pair(a, b, are_numbers));
  return std::bit_cast<Vector<char>>(rare_pair(a, b));
}
/// The upper halves of numbers, packed.
inline Halves upper_halves(Vector<uint32_t> v) {
  const __m512i packed = _mm512_maskz_permutexvar_epi16(
      ~__mmask32(0), std::bit_cast<__m512i>(kUpper), std::bit_cast<__m512i>(v));
  Halves halves;
  std::memcpy(&halves, &packed, sizeof halves);
  return halves;
}

inline Floats fused(Floats a, Floats b, Floats c) { return _mm512_fmadd_ps(a, b, c); }
inline Doubles fused(Doubles a, Doubles b, Doubles c) { return _mm512_fmadd_pd(a, b, c); }

/// The larger one of each lane; NaN where v is, and v where both are zeros.
inline Floats at_least(Floats v, float low) {
  return _mm512_maskz_max_ps(0xffff, broadcast(low), v);
}

/// The smaller one of each lane; NaN where v is.
inline Floats at_most(Floats v, float high) {
  return _mm512_maskz_min_ps(0xffff, broadcast(high), v);
}

/// a where v's sign bit is set, else b.
inline Floats by_sign(Floats v, Floats a, Floats b) {
  return _mm512_mask_blend_ps(_mm512_movepi32_mask(std::bit_cast<__m512i>(v)), b, a);
}

/// a * b, but 0 where a is.
inline Floats gated_product(Floats a, Floats b) {
  return _mm512_maskz_mul_ps(_mm512_cmp_ps_mask(a, Floats{}, _CMP_NEQ_UQ), a, b);
}

/// 1 / b for numbers in [2^-120, 2^120], to a unit and a half in the last place.
inline Floats reciprocal(Floats b) {
  const Floats guess = _mm512_maskz_rcp14_ps(0xffff, b);
  return fused(guess, fused(-b, guess, broadcast(1)), guess);
}
/// a / b for b in [1, 16], to the same.
inline Floats quotient(Floats a, Floats b) { return a * reciprocal(b); }

inline Floats root(Floats v) { return _mm512_maskz_sqrt_ps(0xffff, v); }
inline Doubles root(Doubles v) { return _mm512_maskz_sqrt_pd(0xff, v); }

inline Doubles as_doubles(HalfFloats v) { return _mm512_maskz_cvtps_pd(0xff, v); }
inline HalfFloats as_floats(Doubles v) { return _mm512_maskz_cvtpd_ps(0xff, v); }

/// Whether all lanes of a comparison hold.
inline bool all_of(Vector<int64_t> mask) {
  return _mm512_movepi64_mask(std::bit_cast<__m512i>(mask)) == 0xff;
}

inline bool is_zero(Vector<uint32_t> v) {
  return _mm512_test_epi32_mask(std::bit_cast<__m512i>(v), std::bit_cast<__m512i>(v)) == 0;
}

/// Lanes that something holds of, in any of some vectors.
using LaneSet = __mmask16;
/// Lanes in which one of two is NaN.
inline LaneSet nan_lanes(Floats a, Floats b) { return _mm512_cmp_ps_mask(a, b, _CMP_UNORD_Q); }
inline bool is_any(LaneSet lanes) { return lanes != 0; }

/// Integers of 16 bits as such of 32.
inline LaneIndices as_words(Vector<int16_t, kVectorBytes / 2> v) {
  return std::bit_cast<LaneIndices>(_mm512_maskz_cvtepi16_epi32(0xffff, std::bit_cast<__m256i>(v)));
}

/// v * 2^n for whole numbers n.
inline Floats times_power(Floats v, Floats n) { return _mm512_maskz_scalef_ps(0xffff, v, n); }

/// A line put together of 16 bits each: number i of the 32 is number which[i] of those at `a` and
/// then at `b`, or number i of those at `rest` where which[i] is negative.
inline Block<64> merged_line(const char* a, const char* b, const char* which, const char* rest) {
  const __m512i from = _mm512_loadu_si512(which);
  const __m512i bytes =
      _mm512_permutex2var_epi16(_mm512_loadu_si512(a), from, _mm512_loadu_si512(b));
  return Block<64>(std::bit_cast<Vector<char>>(
      _mm512_mask_blend_epi16(_mm512_movepi16_mask(from), bytes, _mm512_loadu_si512(rest))));
}

/// A table of 2^kTableBits numbers; entry i modulo its length.
constexpr int kTableBits = 5;
inline Vector<uint32_t> looked_up(const uint32_t* table, Vector<uint32_t> i) {
  return std::bit_cast<Vector<uint32_t>>(_mm512_permutex2var_epi32(
      _mm512_loadu_si512(table), std::bit_cast<__m512i>(i), _mm512_loadu_si512(table + 16)));
}

/// Lane l of the result is v[index[l]] where `at` has lane l, else `other`'s.
constexpr bool kPermutes = true;
inline Floats permuted(Floats other, Floats v, LaneIndices index, LaneIndices at) {
  const __mmask16 mask = _mm512_movepi32_mask(std::bit_cast<__m512i>(at));
  return _mm512_mask_permutexvar_ps(other, mask, std::bit_cast<__m512i>(index), v);
}

/// Lane l of the result is lane index[l], modulo the lanes of both, of a's and then b's.
inline Floats lanes_of(Floats a, Floats b, LaneIndices index) {
  return _mm512_permutex2var_ps(a, std::bit_cast<__m512i>(index), b);
}

/// v, which no compiler knows any more: it stays in a register.
template <class V>
inline V opaque(V v) {
  asm("" : "+v"(v));
  return v;
}

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
