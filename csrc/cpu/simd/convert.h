// Elements in and out of the type they are computed in: vectors of them, and rows.
#pragma once

#include <bit>
#include <cstdint>
#include <type_traits>

#include "core/scalar.h"
#include "cpu/simd/stream.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

/// `are_numbers`: no lane is NaN, which is cheaper to round.
inline Halves narrow(Float16 type, Floats v, bool) { return narrow(type, v); }
template <class T>
  requires std::is_same_v<T, BFloat16>
inline Halves narrow(T, Floats v, bool are_numbers) {
  if constexpr (kNarrowsBFloat16) {
    return narrow_as(T{}, v);
  } else {
    const auto bits = std::bit_cast<Vector<uint32_t>>(v);
    const auto rounded = bits + 0x7fffu + (bits >> 16 & 1u);
    return upper_halves(are_numbers ? rounded : v == v ? rounded : (bits | 0x400000u));
  }
}

inline Floats load_wide(const float* p, Whole) { return load_vector<Floats>(p); }
inline void store_narrow(float* p, Floats v, Whole, bool = false) { store_vector(p, v); }
/// Past the caches; p is a multiple of the vector's bytes.
inline void stream_narrow(float* p, Floats v, bool = false) { stream_vector(p, v); }

inline Doubles load_wide(const double* p, Whole) { return load_vector<Doubles>(p); }
inline void store_narrow(double* p, Doubles v, Whole, bool = false) { store_vector(p, v); }

/// Lanes beyond a partial vector are 0.
template <class T, class Lanes>
inline Floats load_wide(const T* p, Lanes m) {
  return widen(T{}, load_halves(p, m));
}

/// Whether elements of one of these rows stand across lines, vectors of a line's length.
template <class... T>
inline bool are_across_lines(const T*... row) {
  return kHasLineVectors && ((std::is_same_v<T, float> && bytes_to_line(row) != 0) || ...);
}

/// load_wide() of such elements, if they are `across`: the halves of a vector, one of which stands
/// in one line, are there sooner than the vector, which needs two lines at once.
template <class T, class Lanes>
[[gnu::always_inline]] inline Vector<Acc<T>> load_across(const T* p, Lanes m, bool across) {
  if constexpr (kHasLineVectors && std::is_same_v<T, float> && std::is_same_v<Lanes, Whole>)
    if (across) {
      const auto a = opaque(load_vector<HalfFloats>(p)),
                 b = opaque(load_vector<HalfFloats>(p + kFloats / 2));
      return __builtin_shufflevector(a, b, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    }
  return load_wide(p, m);
}

template <class T, class Lanes>
inline void store_narrow(T* p, Floats v, Lanes m, bool are_numbers = false) {
  store_halves(p, narrow(T{}, v, are_numbers), m);
}
template <class T>
inline void stream_narrow(T* p, Floats v, bool are_numbers = false) {
  stream_vector(p, narrow(T{}, v, are_numbers));
}

/// Two vectors; those to be streamed begin a line. `converts` is asked for before a loop.
template <class T, class Converts = bool>
inline void put_pair(T* p, Floats a, Floats b, bool is_streamed, bool are_numbers,
                     [[maybe_unused]] Converts converts = converts_pairs()) {
  if constexpr (kNarrowsPairs && std::is_same_v<T, BFloat16>) {
    const auto both = narrow_pair(a, b, are_numbers, converts);
    return is_streamed ? stream_vector(p, both) : store_vector(p, both);
  }
  if (is_streamed) {
    stream_narrow(p, a, are_numbers);
    return stream_narrow(p + kFloats, b, are_numbers);
  }
  store_narrow(p, a, Whole{}, are_numbers);
  store_narrow(p + kFloats, b, Whole{}, are_numbers);
}

inline void put_pair(double* p, Doubles a, Doubles b, bool is_streamed, bool, bool = false) {
  if (is_streamed) {
    stream_vector(p, a);
    return stream_vector(p + kDoubles, b);
  }
  store_vector(p, a);
  store_vector(p + kDoubles, b);
}

/// v in the lanes that stand for elements, `other` in the rest.
inline Floats select(Whole, Floats v, Floats) { return v; }
inline Floats select(Partial m, Floats v, Floats other) {
  return kLaneIndices < LaneIndices{} + int32_t(m.n) ? v : other;
}

/// -|v|
inline Floats minus_magnitude(Floats v) {
  return std::bit_cast<Floats>(std::bit_cast<Vector<uint32_t>>(v) | 0x80000000u);
}

/// Converts the leading part of a packed row that whole vectors cover; returns its length.
inline int64_t load_vectors(float* __restrict dst, const Float16* __restrict src, int64_t n) {
  int64_t i = 0;
  for (; i + kFloats <= n; i += kFloats) store_vector(dst + i, load_wide(src + i, Whole{}));
  return i;
}

template <class T>
inline int64_t store_vectors(T* __restrict dst, const float* __restrict src, int64_t n) {
  int64_t i = 0;
  for (; i + kFloats <= n; i += kFloats)
    store_narrow(dst + i, load_vector<Floats>(src + i), Whole{});
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
    if constexpr (sizeof(T) == 2) i = store_vectors(dst, src, n);
    for (; i < n; ++i) dst[i] = store_as<T>(src[i]);
    return;
  }
  for (int64_t i = 0; i < n; ++i) dst[i * stride] = store_as<T>(src[i]);
}

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
