// Vectors as wide as the instruction set has them, in the compiler's own notation.
#pragma once

#include <cstdint>
#include <cstring>
#include <utility>

namespace cudml::cpu::CUDML_ISA {
namespace {

#if defined(__AVX512F__)
constexpr int kVectorBytes = 64;
#elif defined(__AVX__)
constexpr int kVectorBytes = 32;
#else
constexpr int kVectorBytes = 16;
#endif

/// Whether a vector fills a line of memory. Loops that take several rows in turn, a line of each,
/// hold two vectors of each row in registers then; with smaller ones registers do not suffice.
constexpr bool kHasLineVectors = kVectorBytes == 64;

/// Whether vectors are wider than the least ones.
constexpr bool kHasWideVectors = kVectorBytes > 16;

/// Whether code is kept small: processors of x86-64 that have no AVX are hardly met.
#if defined(__x86_64__) && !defined(__AVX__)
constexpr bool kIsKeptSmall = true;
#else
constexpr bool kIsKeptSmall = false;
#endif

/// Whether one instruction puts the lanes of a vector, of words or larger, into any order.
#if defined(__AVX512BW__)
constexpr bool kTurnsVectors = true;
#else
constexpr bool kTurnsVectors = false;
#endif

template <class A, int kBytes = kVectorBytes>
struct VectorOf {
  typedef A type __attribute__((vector_size(kBytes)));
};

template <class A, int kBytes = kVectorBytes>
using Vector = typename VectorOf<A, kBytes>::type;

template <class A>
constexpr int64_t kLanes = kVectorBytes / int64_t(sizeof(A));

template <class A>
inline Vector<A> all_lanes(A value) {
  return value - Vector<A>{};  // whose bits it keeps, those of a negative zero too
}

/// The leading elements at p, of any alignment.
template <class V, class A>
inline V load_vector(const A* p) {
  V v;
  std::memcpy(&v, p, sizeof v);
  return v;
}

template <class V, class A>
inline void store_vector(A* p, const V& v) {
  std::memcpy(p, &v, sizeof v);
}

template <class V, int... kLane>
[[gnu::always_inline]] inline V turned(const V& v, std::integer_sequence<int, kLane...>) {
  return __builtin_shufflevector(v, v, (int(sizeof...(kLane)) - 1 - kLane)...);
}
/// The lanes of v, the last one first.
template <class V>
[[gnu::always_inline]] inline V turned(const V& v) {
  return turned(v, std::make_integer_sequence<int, int(sizeof v / sizeof v[0])>{});
}

/// Lane l of the result is lane index[l] of v, modulo their number.
template <class V, class Indices>
inline V shuffled(const V& v, const Indices& index) {
#if __has_builtin(__builtin_shuffle)
  return __builtin_shuffle(v, index);
#else  // compilers without that notation, by way of memory
  constexpr auto kCount = sizeof v / sizeof v[0];
  V moved;
  for (size_t l = 0; l < kCount; ++l) moved[l] = v[size_t(index[l]) % kCount];
  return moved;
#endif
}

/// The same of the lanes of a and then b's.
template <class V, class Indices>
inline V shuffled(const V& a, const V& b, const Indices& index) {
#if __has_builtin(__builtin_shuffle)
  return __builtin_shuffle(a, b, index);
#else
  constexpr auto kCount = sizeof a / sizeof a[0];
  V moved;
  for (size_t l = 0; l < kCount; ++l) {
    const size_t i = size_t(index[l]) % (2 * kCount);
    moved[l] = i < kCount ? a[i] : b[i - kCount];
  }
  return moved;
#endif
}

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
