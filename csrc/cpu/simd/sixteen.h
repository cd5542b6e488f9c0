// Vectors of 16 bytes in the compiler's notation: what a level's own file need not say. That file
// has Halves, words_of(Halves), halves_of(words below 2^16), root(), fused() and opaque().
#pragma once

#include <bit>

#include "cpu/simd/floats.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

static_assert(kVectorBytes == 16);

using Words = Vector<uint32_t>;
constexpr LaneIndices kLaneIndices = {0, 1, 2, 3};
constexpr Vector<int64_t> kDoubleIndices = {0, 1};

/// The first n of four.
template <class E>
inline void copy_lanes(E* to, const E* from, int64_t n) {
  for (int l = 0; l < 4; ++l)
    if (l < n) to[l] = from[l];
}

inline Halves load_halves(const void* p, Whole) {
  return load_vector<Halves>(static_cast<const uint16_t*>(p));
}
inline Halves load_halves(const void* p, Partial m) {
  uint16_t lanes[4] = {};
  copy_lanes(lanes, static_cast<const uint16_t*>(p), m.n);
  return load_vector<Halves>(lanes);
}
inline void store_halves(void* p, Halves v, Whole) { store_vector(static_cast<uint16_t*>(p), v); }
inline void store_halves(void* p, Halves v, Partial m) {
  uint16_t lanes[4];
  store_vector(lanes, v);
  copy_lanes(static_cast<uint16_t*>(p), lanes, m.n);
}

inline Floats load_wide(const float* p, Partial m) {
  float lanes[4] = {};
  copy_lanes(lanes, p, m.n);
  return load_vector<Floats>(lanes);
}
inline void store_narrow(float* p, Floats v, Partial m, bool = false) {
  float lanes[4];
  store_vector(lanes, v);
  copy_lanes(p, lanes, m.n);
}

inline float widen_one(Float16 v) { return load_as_acc(v); }
inline Float16 narrow_one(float v) { return store_as<Float16>(v); }

inline Floats widen(BFloat16, Halves v) { return std::bit_cast<Floats>(words_of(v) << 16); }

/// As to_float() of core/scalar.h.
inline Floats widened_float16(Halves v) {
  const Words bits = words_of(v), magnitude = bits & 0x7fffu;
  const auto value = std::bit_cast<Words>(std::bit_cast<Floats>(magnitude << 13) * 0x1p112f);
  const Words infinite = (magnitude << 13) | 0x7f800000u;
  return std::bit_cast<Floats>((magnitude > 0x7bffu ? infinite : value) | (bits & 0x8000u) << 16);
}

/// As to_float16() of core/scalar.h.
inline Halves narrowed_float16(Floats v) {
  const Words bits = std::bit_cast<Words>(v), magnitude = bits & 0x7fffffffu;
  // Signed comparisons of magnitudes: these the baseline of x86-64 has.
  const auto size = std::bit_cast<LaneIndices>(magnitude);
  const Words normal = (magnitude - 0x38000000u + 0xfffu + (magnitude >> 13 & 1u)) >> 13,
              small = std::bit_cast<Words>(std::bit_cast<Floats>(magnitude) + 0.5f) - 0x3f000000u,
              nan = (magnitude >> 13 & 0x3ffu) | 0x7e00u, infinite = Words{} + 0x7c00u;
  const Words finite = size < 0x38800000 ? small : normal,
              extreme = size > 0x7f800000 ? nan : infinite;
  return halves_of((size > 0x477fefff ? extreme : finite) | (bits >> 16 & 0x8000u));
}

inline Halves upper_halves(Words v) { return halves_of(v >> 16); }
// Two vectors have no conversion to BFloat16 of their own.
constexpr bool kNarrowsPairs = false;
inline bool converts_pairs() { return false; }

/// The larger one of each lane; NaN where v is, and v where both are zeros.
inline Floats at_least(Floats v, float low) { return v < low ? broadcast(low) : v; }

/// The smaller one of each lane; NaN where v is.
inline Floats at_most(Floats v, float high) { return v > high ? broadcast(high) : v; }

/// a where v's sign bit is set, else b.
inline Floats by_sign(Floats v, Floats a, Floats b) {
  return std::bit_cast<LaneIndices>(v) < 0 ? a : b;
}

/// a * b, but 0 where a is.
inline Floats gated_product(Floats a, Floats b) { return a == 0 ? Floats{} : a * b; }

/// a / b for b in [1, 16], to a unit and a half in the last place.
inline Floats quotient(Floats a, Floats b) { return a / b; }
/// The same of 1 / b for numbers in [2^-120, 2^120].
inline Floats reciprocal(Floats b) { return 1 / b; }

inline Doubles as_doubles(HalfFloats v) { return __builtin_convertvector(v, Doubles); }
inline HalfFloats as_floats(Doubles v) { return __builtin_convertvector(v, HalfFloats); }

/// Whether all lanes of a comparison hold.
inline bool all_of(Vector<int64_t> mask) { return (mask[0] & mask[1]) != 0; }

inline bool is_zero(Words v) {
  const auto both = std::bit_cast<Vector<int64_t>>(v);
  return (both[0] | both[1]) == 0;
}

/// Lanes that something holds of, in any of some vectors.
using LaneSet = LaneIndices;
/// Lanes in which one of two is NaN.
inline LaneSet nan_lanes(Floats a, Floats b) { return (a != a) | (b != b); }
inline bool is_any(LaneSet lanes) { return !is_zero(std::bit_cast<Words>(lanes)); }

/// Integers of 16 bits as such of 32.
inline LaneIndices as_words(Vector<int16_t, kVectorBytes / 2> v) {
  return __builtin_convertvector(v, LaneIndices);
}

/// v * 2^n for whole numbers n from -250 to 0, in two steps, since 2^n may be subnormal.
inline Floats times_power(Floats v, Floats n) {
  const auto whole = __builtin_convertvector(n, LaneIndices), half = whole >> 1;
  return v * std::bit_cast<Floats>((half + 127) << 23) *
         std::bit_cast<Floats>((whole - half + 127) << 23);
}

/// A line put together of 16 bits each: number i of the 32 is number which[i] of those at `a` and
/// then at `b`, or number i of those at `rest` where which[i] is negative.
inline Block<64> merged_line(const char* a, const char* b, const char* which, const char* rest) {
  return merge_each(a, b, which, rest);
}

// Four lanes are moved about by way of memory.
constexpr int kTableBits = 0;
inline Words looked_up(const uint32_t* table, Words) { return Words{} + table[0]; }
constexpr bool kPermutes = false;
inline Floats permuted(Floats other, Floats v, LaneIndices index, LaneIndices at) {
  for (int l = 0; l < 4; ++l)
    if (at[l]) other[l] = v[index[l]];
  return other;
}

/// Lane l of the result is lane index[l], modulo the lanes of both, of a's and then b's.
inline Floats lanes_of(Floats a, Floats b, LaneIndices index) {
  float lanes[8], moved[4];
  store_vector(lanes, a);
  store_vector(lanes + 4, b);
  for (int l = 0; l < 4; ++l) moved[l] = lanes[index[l] & 7];
  return load_vector<Floats>(moved);
}

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
