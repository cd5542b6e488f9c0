// Vectors as wide as the instruction set has them, in the compiler's own notation.
#pragma once

#include <cstdint>
#include <cstring>

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

template <class A, int kBytes = kVectorBytes>
struct VectorOf {
  typedef A type __attribute__((vector_size(kBytes)));
};

template <class A, int kBytes = kVectorBytes>
using Vector = typename VectorOf<A, kBytes>::type;

template <class A>
constexpr int64_t kLanes = kVectorBytes / int64_t(sizeof(A));

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

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
