// Processors that no file here is about: vectors of 16 bytes as the compiler makes them.
#pragma once

#include <bit>
#include <cmath>

#include "cpu/simd/floats.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

using Halves = Vector<uint16_t, 8>;

inline Vector<uint32_t> words_of(Halves v) { return __builtin_convertvector(v, Vector<uint32_t>); }
inline Halves halves_of(Vector<uint32_t> v) { return __builtin_convertvector(v, Halves); }

template <class V>
inline void stream_bits(void* p, const V& v) {
  store_vector(static_cast<char*>(p), v);
}

template <class V>
inline V root(V v) {
  for (int l = 0; l < int(sizeof v / sizeof v[0]); ++l) v[l] = std::sqrt(v[l]);
  return v;
}

template <class V>
inline V fused(const V& a, const V& b, const V& c) {
  V v = {};
  for (int l = 0; l < int(sizeof v / sizeof v[0]); ++l)
    v[l] = cudml::fused(a[l] + 0, b[l] + 0, c[l] + 0);
  return v;
}

/// dst[i] = src[which[i]] for i in [0, n).
template <int kBytes>
inline void pick_bytes(char* dst, const char* src, const unsigned char* which, int64_t n) {
  pick_each(dst, src, which, n);
}

template <class V>
inline V opaque(V v) {
  return v;
}

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA

#include "cpu/simd/sixteen.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

inline Floats widen(Float16, Halves v) { return widened_float16(v); }
constexpr bool kNarrowsBFloat16 = false;
inline Halves narrow(Float16, Floats v) { return narrowed_float16(v); }

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
