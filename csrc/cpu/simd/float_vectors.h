// Vectors of float in and out of rows of float, Float16 and BFloat16, on processors with AVX2.
#pragma once

#include <cmath>
#include <type_traits>
#include <utility>

#include "core/scalar.h"
#include "cpu/simd/stream.h"

#if defined(__AVX2__) && defined(__F16C__) && defined(__FMA__)
#define CUDML_MVN_VECTORS 1

namespace cudml::cpu::CUDML_ISA {
namespace {

using Floats = Vector<float>;
using HalfFloats = Vector<float, kVectorBytes / 2>;
constexpr int64_t kFloats = kLanes<float>;

/// Which lanes of a vector stand for elements: all of them, or the first n.
struct Whole {};
struct Partial {
  int64_t n;
};

/// Calls fn(lanes) for the next of n elements.
template <class Fn>
inline void with_lanes(int64_t n, const Fn& fn) {
  if (n >= kFloats)
    fn(Whole{});
  else
    fn(Partial{n});
}

inline Floats broadcast(float value) { return Floats{} + value; }

#if defined(__AVX512F__)

using HalfBits = __m256i;
using LaneIndices = Vector<int32_t>;
constexpr LaneIndices kLaneIndices = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};

inline __mmask16 mask_of(Partial m) { return __mmask16((1u << m.n) - 1); }

inline HalfBits load_halves(const void* p, Whole) {
  return _mm256_loadu_si256(static_cast<const __m256i*>(p));
}
inline HalfBits load_halves(const void* p, Partial m) {
  return _mm256_maskz_loadu_epi16(mask_of(m), p);
}
inline void store_halves(void* p, HalfBits v, Whole) {
  _mm256_storeu_si256(static_cast<__m256i*>(p), v);
}
inline void store_halves(void* p, HalfBits v, Partial m) {
  _mm256_mask_storeu_epi16(p, mask_of(m), v);
}
inline void stream_halves(void* p, HalfBits v) { _mm256_stream_si256(static_cast<__m256i*>(p), v); }

inline Floats load_wide(const float* p, Partial m) { return _mm512_maskz_loadu_ps(mask_of(m), p); }
inline void store_narrow(float* p, Floats v, Partial m, bool = false) {
  _mm512_mask_storeu_ps(p, mask_of(m), v);
}

inline Floats widen(Float16, HalfBits v) { return _mm512_maskz_cvtph_ps(0xffff, v); }
/// Each pair of numbers from and to one shuffle, which costs less than a shift beside it.
constexpr Vector<int16_t> kSpread = {0, 0, 0, 1, 0, 2,  0, 3,  0, 4,  0, 5,  0, 6,  0, 7,
                                     0, 8, 0, 9, 0, 10, 0, 11, 0, 12, 0, 13, 0, 14, 0, 15};
constexpr Vector<int16_t> kUpper = {1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31};
inline Floats widen(BFloat16, HalfBits v) {
  return _mm512_castsi512_ps(
      _mm512_maskz_permutexvar_epi16(0xaaaaaaaa, std::bit_cast<__m512i>(kSpread),
                                     _mm512_maskz_inserti64x4(0xff, __m512i{}, v, 0)));
}
inline HalfBits narrow(Float16, Floats v, bool) {
  return _mm512_maskz_cvtps_ph(0xffff, v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
/// Where the halves of the numbers of two vectors stand.
constexpr Vector<int16_t> kUpperOfTwo = {1,  3,  5,  7,  9,  11, 13, 15, 17, 19, 21,
                                         23, 25, 27, 29, 31, 33, 35, 37, 39, 41, 43,
                                         45, 47, 49, 51, 53, 55, 57, 59, 61, 63};
constexpr Vector<int16_t> kLowerOfTwo = kUpperOfTwo - 1;
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
inline __m512i narrow_pair(Floats a, Floats b, bool are_numbers, Converts converts) {
  if (converts & !is_any_subnormal(a, b)) [[likely]] {  // one branch
    __m512i both;  // by its name, since this code is for processors without it, too
    asm("vcvtne2ps2bf16 %1, %2, %0" : "=v"(both) : "v"(a), "v"(b));
    return both;
  }
  if constexpr (std::is_same_v<Converts, bool>) return rounded_pair(a, b, are_numbers);
  return rare_pair(a, b);
}
/// The upper halves of numbers, packed.
inline HalfBits upper_halves(Vector<uint32_t> v) {
  const __m512i packed = _mm512_maskz_permutexvar_epi16(
      ~__mmask32(0), std::bit_cast<__m512i>(kUpper), std::bit_cast<__m512i>(v));
  HalfBits halves;
  std::memcpy(&halves, &packed, sizeof halves);
  return halves;
}

#else

using HalfBits = __m128i;
using LaneIndices = Vector<int32_t>;
constexpr LaneIndices kLaneIndices = {0, 1, 2, 3, 4, 5, 6, 7};

inline __m256i mask_of(Partial m) {
  return std::bit_cast<__m256i>(kLaneIndices < LaneIndices{} + int32_t(m.n));
}

inline HalfBits load_halves(const void* p, Whole) {
  return _mm_loadu_si128(static_cast<const __m128i*>(p));
}
inline HalfBits load_halves(const void* p, Partial m) {
  alignas(16) char bytes[32] = {};
  copy_short(bytes, static_cast<const char*>(p), 2 * m.n);
  return load_halves(bytes, Whole{});
}
inline void store_halves(void* p, HalfBits v, Whole) {
  _mm_storeu_si128(static_cast<__m128i*>(p), v);
}
inline void store_halves(void* p, HalfBits v, Partial m) {
  alignas(16) char bytes[32];
  store_halves(bytes, v, Whole{});
  copy_short(static_cast<char*>(p), bytes, 2 * m.n);
}
inline void stream_halves(void* p, HalfBits v) { _mm_stream_si128(static_cast<__m128i*>(p), v); }

inline Floats load_wide(const float* p, Partial m) { return _mm256_maskload_ps(p, mask_of(m)); }
inline void store_narrow(float* p, Floats v, Partial m, bool = false) {
  _mm256_maskstore_ps(p, mask_of(m), v);
}

inline Floats widen(Float16, HalfBits v) { return _mm256_cvtph_ps(v); }
inline Floats widen(BFloat16, HalfBits v) {
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(v), 16));
}
inline HalfBits narrow(Float16, Floats v, bool) {
  return _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT);
}
inline bool converts_pairs() { return false; }
/// The upper halves of numbers, packed.
inline HalfBits upper_halves(Vector<uint32_t> v) {
  const __m256i pairs = _mm256_packus_epi32(std::bit_cast<__m256i>(v >> 16), __m256i{});
  return _mm256_castsi256_si128(_mm256_permute4x64_epi64(pairs, 0x08));
}

#endif

inline HalfBits narrow(BFloat16, Floats v, bool are_numbers) {
  const auto bits = std::bit_cast<Vector<uint32_t>>(v);
  const auto rounded = bits + 0x7fffu + (bits >> 16 & 1u);
  return upper_halves(are_numbers ? rounded : v == v ? rounded : (bits | 0x400000u));
}

inline Floats load_wide(const float* p, Whole) { return load_vector<Floats>(p); }
inline void store_narrow(float* p, Floats v, Whole, bool = false) { store_vector(p, v); }
/// Past the caches; p is a multiple of the vector's bytes.
inline void stream_narrow(float* p, Floats v, bool = false) { stream_vector(p, v); }

/// Lanes beyond a partial vector are 0.
template <class T, class Lanes>
inline Floats load_wide(const T* p, Lanes m) {
  return widen(T{}, load_halves(p, m));
}
/// `are_numbers`: no lane is NaN, which is cheaper to round.
template <class T, class Lanes>
inline void store_narrow(T* p, Floats v, Lanes m, bool are_numbers = false) {
  store_halves(p, narrow(T{}, v, are_numbers), m);
}
template <class T>
inline void stream_narrow(T* p, Floats v, bool are_numbers = false) {
  stream_halves(p, narrow(T{}, v, are_numbers));
}

/// Two vectors; those to be streamed begin a line. `converts` is asked for before a loop.
template <class T, class Converts = bool>
inline void put_pair(T* p, Floats a, Floats b, bool is_streamed, bool are_numbers,
                     [[maybe_unused]] Converts converts = converts_pairs()) {
#if defined(__AVX512F__)
  if constexpr (std::is_same_v<T, BFloat16>) {
    const __m512i both = narrow_pair(a, b, are_numbers, converts);
    if (is_streamed) return _mm512_stream_si512(reinterpret_cast<__m512i*>(p), both);
    return _mm512_storeu_si512(p, both);
  }
#endif
  if (is_streamed) {
    stream_narrow(p, a, are_numbers);
    return stream_narrow(p + kFloats, b, are_numbers);
  }
  store_narrow(p, a, Whole{}, are_numbers);
  store_narrow(p + kFloats, b, Whole{}, are_numbers);
}

/// v in the lanes that stand for elements, `other` in the rest.
inline Floats select(Whole, Floats v, Floats) { return v; }
inline Floats select(Partial m, Floats v, Floats other) {
  return kLaneIndices < LaneIndices{} + int32_t(m.n) ? v : other;
}

template <class Half, class V>
inline Half halves_added(const V& v) {
  Half half[2];
  std::memcpy(half, &v, sizeof v);
  return half[0] + half[1];
}

using Doubles = Vector<double>;

// a * b + c, rounded once. Said outright where the same formula stands in code for whole vectors,
// for partial ones and for single numbers: a compiler may fuse a product and a sum in one of them
// only.
inline double fused(double a, double b, double c) { return std::fma(a, b, c); }
#if defined(__AVX512F__)
inline Floats fused(Floats a, Floats b, Floats c) { return _mm512_fmadd_ps(a, b, c); }
inline Doubles fused(Doubles a, Doubles b, Doubles c) { return _mm512_fmadd_pd(a, b, c); }
#else
inline Floats fused(Floats a, Floats b, Floats c) { return _mm256_fmadd_ps(a, b, c); }
inline Doubles fused(Doubles a, Doubles b, Doubles c) { return _mm256_fmadd_pd(a, b, c); }
#endif

/// The larger one of each lane; NaN where v is.
inline Floats at_least(Floats v, float low) {
#if defined(__AVX512F__)
  return _mm512_maskz_max_ps(0xffff, broadcast(low), v);
#else
  return _mm256_max_ps(broadcast(low), v);
#endif
}

/// -|v|
inline Floats minus_magnitude(Floats v) {
  return std::bit_cast<Floats>(std::bit_cast<Vector<uint32_t>>(v) | 0x80000000u);
}

/// a where v's sign bit is set, else b.
inline Floats by_sign(Floats v, Floats a, Floats b) {
#if defined(__AVX512F__)
  return _mm512_mask_blend_ps(_mm512_movepi32_mask(std::bit_cast<__m512i>(v)), b, a);
#else
  return _mm256_blendv_ps(b, a, v);
#endif
}

/// a * b, but 0 where a is.
inline Floats gated_product(Floats a, Floats b) {
#if defined(__AVX512F__)
  return _mm512_maskz_mul_ps(_mm512_cmp_ps_mask(a, Floats{}, _CMP_NEQ_UQ), a, b);
#else
  return _mm256_and_ps(_mm256_cmp_ps(a, Floats{}, _CMP_NEQ_UQ), a * b);
#endif
}

/// a / b for b in [1, 2], to a unit and a half in the last place.
inline Floats quotient(Floats a, Floats b) {
#if defined(__AVX512F__)
  const Floats guess = _mm512_maskz_rcp14_ps(0xffff, b);
  return a * fused(guess, fused(-b, guess, broadcast(1)), guess);
#else
  return a / b;
#endif
}

/// The sum of all lanes, by halves.
inline float sum_of_lanes(Floats v) {
#if defined(__AVX512F__)
  const auto eight = halves_added<Vector<float, 32>>(v);
#else
  const auto eight = v;
#endif
  const auto four = halves_added<Vector<float, 16>>(eight);
  const auto two = halves_added<Vector<float, 8>>(four);
  return two[0] + two[1];
}

/// Adds the halves of each block of kBlock lanes, of a's blocks and then of b's.
template <int kBlock, int... kLane>
inline Floats blocks_halved(Floats a, Floats b, std::integer_sequence<int, kLane...>) {
  constexpr int kHalf = kBlock / 2;
  return __builtin_shufflevector(a, b, kLane / kHalf * kBlock + kLane % kHalf...) +
         __builtin_shufflevector(a, b, kLane / kHalf * kBlock + kLane % kHalf + kHalf...);
}

/// For each of kCount vectors in turn kFloats / kCount lanes, which add up to the sum of its lanes.
template <int kCount>
[[gnu::always_inline]] inline Floats sums_of_blocks(const Floats* v) {
  if constexpr (kCount == 1) {
    return v[0];
  } else {
    return blocks_halved<2 * int(kFloats) / kCount>(
        sums_of_blocks<kCount / 2>(v), sums_of_blocks<kCount / 2>(v + kCount / 2),
        std::make_integer_sequence<int, int(kFloats)>{});
  }
}

/// sum_of_lanes() of kFloats vectors at once: lane i is the sum of v[i].
[[gnu::noinline]] inline Floats sums_of_lanes(const Floats* v) {
  return sums_of_blocks<int(kFloats)>(v);
}

constexpr int64_t kDoubles = kLanes<double>;
#if defined(__AVX512F__)
constexpr Vector<int64_t> kDoubleIndices = {0, 1, 2, 3, 4, 5, 6, 7};
#else
constexpr Vector<int64_t> kDoubleIndices = {0, 1, 2, 3};
#endif

#if defined(__AVX512F__)
inline Doubles as_doubles(HalfFloats v) { return _mm512_maskz_cvtps_pd(0xff, v); }
inline HalfFloats as_floats(Doubles v) { return _mm512_maskz_cvtpd_ps(0xff, v); }
#else
inline Doubles as_doubles(HalfFloats v) { return _mm256_cvtps_pd(v); }
inline HalfFloats as_floats(Doubles v) { return _mm256_cvtpd_ps(v); }
#endif
inline double as_doubles(float v) { return v; }
inline float as_floats(double v) { return static_cast<float>(v); }

/// kFloats of them.
inline void store_doubles(double* p, Floats v) {
  HalfFloats half[2];
  std::memcpy(half, &v, sizeof v);
  store_vector(p, as_doubles(half[0]));
  store_vector(p + kDoubles, as_doubles(half[1]));
}

inline double root(double v) { return std::sqrt(v); }
inline Floats root(Floats v) {
#if defined(__AVX512F__)
  return _mm512_maskz_sqrt_ps(0xffff, v);
#else
  return _mm256_sqrt_ps(v);
#endif
}
inline Doubles root(Doubles v) {
#if defined(__AVX512F__)
  return _mm512_maskz_sqrt_pd(0xff, v);
#else
  return _mm256_sqrt_pd(v);
#endif
}

/// Whether all lanes of a comparison hold.
inline bool all_of(Vector<int64_t> mask) {
#if defined(__AVX512F__)
  return _mm512_movepi64_mask(std::bit_cast<__m512i>(mask)) == 0xff;
#else
  return _mm256_movemask_pd(std::bit_cast<__m256d>(mask)) == 0xf;
#endif
}

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA

#endif
