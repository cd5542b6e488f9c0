// Vectors of pooling: elements into lanes and out of them, neighbours told apart, lanes joined.
#pragma once

#include <cstdint>
#include <utility>

#include "core/scalar.h"
#include "cpu/simd/vector.h"

#if defined(__F16C__)
#include <immintrin.h>
#endif

namespace cudml::cpu::CUDML_ISA {
namespace {

/// Lines of values have room for one vector behind their last element: loops write whole vectors.
constexpr int64_t kSlack = 64;

template <class To, class From>
inline To same_bits(const From& from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  std::memcpy(&to, &from, sizeof to);
  return to;
}

/// v, which is read from memory once, though it is the operand of several instructions.
template <class W>
inline W read_once(W v) {
#if defined(__AVX__)
  asm("" : "+v"(v));
#endif
  return v;
}

/// A vector that is read so where it holds words.
template <class V>
inline Vector<V> load_once(const V* p) {
  const auto v = load_vector<Vector<V>>(p);
  if constexpr (sizeof(V) == 2) return read_once(v);
  return v;
}

/// Signed integers as large as V.
template <class V>
using IntegerLike =
    std::conditional_t<sizeof(V) == 8, int64_t,
                       std::conditional_t<sizeof(V) == 4, int32_t,
                                          std::conditional_t<sizeof(V) == 2, int16_t, int8_t>>>;

#if defined(__AVX512BW__)

/// A vector of which only elements [low, high) are read, and no others touched: these are zeros.
template <class E>
struct PartAt {
  const E* at;
  int64_t low, high;

  __m512i load() const { return _mm512_maskz_loadu_epi8(bytes(), at); }
  __m256i load_half() const { return _mm256_maskz_loadu_epi8(uint32_t(bytes()), at); }

 private:
  uint64_t bytes() const {
    const auto below = [](int64_t n) { return _bzhi_u64(~uint64_t{0}, uint32_t(n * sizeof(E))); };
    return below(high) & ~below(low);
  }
};

template <class V>
inline Vector<V> load_once(PartAt<V> p) {
  return same_bits<Vector<V>>(p.load());
}

#endif

/// kLanes<float> elements from p on.
inline Vector<float> load_floats(const float* p) { return load_vector<Vector<float>>(p); }

/// Floats that are read once, from memory: they arrive faster by 32 bytes than by 64.
struct FarFloats {
  const float* at;
};
inline Vector<float> load_floats(FarFloats p) {
#if defined(__AVX512F__)
  const __m512 low = _mm512_castps256_ps512(_mm256_loadu_ps(p.at));
  return same_bits<Vector<float>>(_mm512_insertf32x8(low, _mm256_loadu_ps(p.at + 8), 1));
#else
  return load_floats(p.at);
#endif
}

inline Vector<double> load_floats(const double* p) { return load_vector<Vector<double>>(p); }

inline Vector<float> load_floats(const Float16* p) {
#if defined(__AVX512F__)
  const __m256i half = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  return same_bits<Vector<float>>(_mm512_maskz_cvtph_ps(0xffff, half));
#elif defined(__F16C__)
  const __m128i half = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  return same_bits<Vector<float>>(_mm256_cvtph_ps(half));
#else
  float lanes[kLanes<float>];
  for (int i = 0; i < kLanes<float>; ++i) lanes[i] = to_float(p[i]);
  return load_vector<Vector<float>>(lanes);
#endif
}

using HalfBits = Vector<uint16_t, kVectorBytes / 2>;

inline Vector<float> load_floats(const BFloat16* p) {
  const auto bits = load_vector<HalfBits>(p);
  return same_bits<Vector<float>>(__builtin_convertvector(bits, Vector<uint32_t>) << 16);
}

/// Writes one vector of values, rounded once.
inline void store_floats(float* p, Vector<float> v) { store_vector(p, v); }

inline void store_floats(double* p, Vector<double> v) { store_vector(p, v); }

inline void store_floats(Float16* p, Vector<float> v) {
#if defined(__AVX512F__)
  constexpr int kNearest = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
  const __m256i half = _mm512_maskz_cvtps_ph(0xffff, same_bits<__m512>(v), kNearest);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), half);
#elif defined(__F16C__)
  const __m128i half = _mm256_cvtps_ph(same_bits<__m256>(v), _MM_FROUND_TO_NEAREST_INT);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), half);
#else
  for (int i = 0; i < kLanes<float>; ++i) p[i] = to_float16(v[i]);
#endif
}

inline void store_floats(BFloat16* p, Vector<float> v) {
  const auto bits = same_bits<Vector<uint32_t>>(v);
  const auto rounded = (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
  const auto half = v != v ? (bits >> 16 | 0x40u) : rounded;
  store_vector(p, __builtin_convertvector(half, HalfBits));
}

#if defined(__AVX512BW__)
template <class E>
inline Vector<Acc<E>> load_floats(PartAt<E> p) {
  if constexpr (std::is_same_v<E, Float16>)
    return same_bits<Vector<float>>(_mm512_maskz_cvtph_ps(0xffff, p.load_half()));
  else if constexpr (std::is_same_v<E, BFloat16>)
    return same_bits<Vector<float>>(
        _mm512_maskz_slli_epi32(0xffff, _mm512_maskz_cvtepu16_epi32(0xffff, p.load_half()), 16));
  else
    return same_bits<Vector<E>>(p.load());
}
#endif

/// The vector at p, whose elements [low, high) are read, and no others touched: these are zeros.
template <class Op>
inline Vector<typename Op::V> load_between(const Op& op, const typename Op::Element* p, int64_t low,
                                           int64_t high) {
  using E = typename Op::Element;
  E room[kVectorBytes / sizeof(E)] = {};
#if defined(__AVX512BW__)
  const PartAt<E> part{p, low, high};
  if constexpr (requires { op.load(part); }) return op.load(part);
  store_vector(room, part.load());
#else
  std::memcpy(room + low, p + low, size_t(high - low) * sizeof(E));
#endif
  return op.load(room);
}

/// Lanes kFirst, kFirst + kStep, … of two vectors.
template <int kFirst, int kStep, class W, size_t... i>
inline W pick(const W& a, const W& b, std::index_sequence<i...>) {
  if constexpr (kStep == 2 && sizeof(W) == 32 && sizeof...(i) == 8) {
    // Halves first: within them a shuffle of two vectors is one instruction, across them four.
    const W low = __builtin_shufflevector(a, b, (int(i) % 4 + int(i) / 4 * 8)...);
    const W high = __builtin_shufflevector(a, b, (int(i) % 4 + int(i) / 4 * 8 + 4)...);
    return __builtin_shufflevector(
        low, high, (kFirst + int(i) % 2 * 2 + int(i) % 4 / 2 * 8 + int(i) / 4 * 4)...);
  } else {
    return __builtin_shufflevector(a, b, (kFirst + kStep * int(i))...);
  }
}

// The larger of two in each lane; what comes of NaNs depends on the order of the two.
#if defined(__AVX512F__)
inline Vector<float> processor_max(Vector<float> a, Vector<float> b) {
  return same_bits<Vector<float>>(
      _mm512_maskz_max_ps(0xffff, same_bits<__m512>(a), same_bits<__m512>(b)));
}
inline Vector<double> processor_max(Vector<double> a, Vector<double> b) {
  return same_bits<Vector<double>>(
      _mm512_maskz_max_pd(0xff, same_bits<__m512d>(a), same_bits<__m512d>(b)));
}
#elif defined(__AVX__)
inline Vector<float> processor_max(Vector<float> a, Vector<float> b) {
  return same_bits<Vector<float>>(_mm256_max_ps(same_bits<__m256>(a), same_bits<__m256>(b)));
}
inline Vector<double> processor_max(Vector<double> a, Vector<double> b) {
  return same_bits<Vector<double>>(_mm256_max_pd(same_bits<__m256d>(a), same_bits<__m256d>(b)));
}
#else
template <class W>
inline W processor_max(const W& a, const W& b) {
  return a > b ? a : b;
}
#endif

/// Whether a vector has a bit that is set.
template <class W>
inline bool any_bits(const W& v) {
#if defined(__AVX512F__)
  return _mm512_test_epi64_mask(same_bits<__m512i>(v), same_bits<__m512i>(v)) != 0;
#else
  const auto words = same_bits<Vector<int64_t>>(v);
  int64_t bits = 0;
  for (int64_t i = 0; i < kLanes<int64_t>; ++i) bits |= words[i];
  return bits != 0;
#endif
}

/// Words as they are, but for the bits `magnitude` of negative ones, which are turned over.
inline Vector<int16_t> turned_if_negative(const Vector<int16_t>& bits, int16_t magnitude) {
#if defined(__AVX512F__)
  constexpr int kAndXor = 0x6a;
  return same_bits<Vector<int16_t>>(_mm512_ternarylogic_epi32(
      same_bits<__m512i>(bits >> 15), same_bits<__m512i>(all_lanes(magnitude)),
      same_bits<__m512i>(bits), kAndXor));
#else
  return bits ^ (bits >> 15 & all_lanes(magnitude));
#endif
}

/// Half a vector of words as numbers of twice their size.
inline Vector<int32_t> widened(const Vector<int16_t, kVectorBytes / 2>& v) {
#if defined(__AVX512F__)
  return same_bits<Vector<int32_t>>(_mm512_maskz_cvtepi16_epi32(0xffff, same_bits<__m256i>(v)));
#else
  return __builtin_convertvector(v, Vector<int32_t>);
#endif
}

/// Whether all floats that were shown, two vectors at a time, were numbers.
class NumbersAlone {
 public:
  void see(const Vector<float>& a, const Vector<float>& b) {
#if defined(__AVX512F__)
    seen_ &= _mm512_cmp_ps_mask(same_bits<__m512>(a), same_bits<__m512>(b), _CMP_ORD_Q);
#else
    seen_ &= (a == a) & (b == b);
#endif
  }
#if defined(__AVX512F__)
  bool hold() const { return seen_ == 0xffff; }

 private:
  __mmask16 seen_ = 0xffff;
#else
  bool hold() const { return !any_bits(~seen_); }

 private:
  Vector<int32_t> seen_ = all_lanes(int32_t{-1});
#endif
};

/// Elements kFirst, kFirst + 2, … of the two vectors at p.
template <int kFirst, class V>
inline Vector<V> every_second(const V* p) {
  constexpr size_t kCount = size_t(kLanes<V>);
  const auto a = load_vector<Vector<V>>(p), b = load_vector<Vector<V>>(p + kCount);
  return pick<kFirst, 2>(a, b, std::make_index_sequence<kCount>{});
}

/// Elements kFirst, kFirst + 3, … of the three vectors at p: those of the first two, then the rest.
template <int kFirst, class W, size_t... i>
inline W every_third(const W& a, const W& b, const W& c, std::index_sequence<i...>) {
  constexpr int n = int(sizeof...(i));
  const W of_two = __builtin_shufflevector(a, b, (kFirst + 3 * int(i)) % (2 * n)...);
  return __builtin_shufflevector(
      of_two, c, (kFirst + 3 * int(i) < 2 * n ? int(i) : kFirst + 3 * int(i) - n)...);
}
template <int kFirst, class V>
inline Vector<V> every_third(const V* p) {
  constexpr size_t kCount = size_t(kLanes<V>);
  const auto at = [p](size_t k) { return load_vector<Vector<V>>(p + k * kCount); };
  return every_third<kFirst>(at(0), at(1), at(2), std::make_index_sequence<kCount>{});
}

/// A half of a vector, kHalf 0 or 1.
template <int kHalf, class V, int kBytes, size_t... i>
inline Vector<V, kBytes / 2> half_of(const Vector<V, kBytes>& v, std::index_sequence<i...>) {
  return __builtin_shufflevector(v, v, (int(i) + kHalf * int(sizeof...(i)))...);
}

/// Joins all lanes: halves with halves.
template <class Join, class V, int kBytes = kVectorBytes>
inline V join_lanes(const Vector<V, kBytes>& v) {
  constexpr size_t kCount = kBytes / sizeof(V);
  if constexpr (kBytes <= 16) {
    V joined = v[0];
    for (size_t i = 1; i < kCount; ++i) joined = Join::join(joined, V(v[i]));
    return joined;
  } else {
    constexpr auto kHalf = std::make_index_sequence<kCount / 2>{};
    return join_lanes<Join, V, kBytes / 2>(
        Join::join(half_of<0, V, kBytes>(v, kHalf), half_of<1, V, kBytes>(v, kHalf)));
  }
}

/// Zeroes all lanes but the last `kept`; 0 <= kept <= kLanes<V>.
template <class V>
inline Vector<V> keep_last(const Vector<V>& v, int64_t kept) {
  using Bits = std::conditional_t<sizeof(V) == 8, int64_t, int32_t>;
  struct Table {
    Bits mask[2 * kLanes<V>] = {};
    constexpr Table() {
      for (int64_t i = 0; i < kLanes<V>; ++i) mask[kLanes<V> + i] = Bits{-1};
    }
  };
  static constexpr Table table;
  const auto mask = load_vector<Vector<Bits>>(table.mask + kept);
  return same_bits<Vector<V>>(same_bits<Vector<Bits>>(v) & mask);
}

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
