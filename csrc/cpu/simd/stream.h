// Stores past the caches, for outputs too large to be found there again.
#pragma once

#include <bit>

#include "cpu/simd/native.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

/// Writes a vector past the caches; `p` is a multiple of its size. The thread's stores become
/// visible to others by the fence at the end of its part of `parallel_for`.
template <class A, class V>
inline void stream_vector(A* p, const V& v) {
  stream_bits(p, std::bit_cast<Vector<char, int(sizeof(V))>>(v));
}

/// A line of 64 bytes past the caches, to its place or from any to it.
inline void stream_line(char* to, const char* from) {
  for (int64_t i = 0; i < 64; i += kVectorBytes)
    stream_vector(to + i, load_vector<Vector<char>>(from + i));
}
template <int kBytes>
inline void stream_block(char* to, const Block<kBytes>& block) {
  if constexpr (kBytes <= kVectorBytes) {
    stream_bits(to, block.bytes);
  } else {
    stream_block(to, block.first);
    stream_block(to + kBytes / 2, block.second);
  }
}

/// Bytes from p to the next line of 64.
inline int64_t bytes_to_line(const void* p) {
  return int64_t(-reinterpret_cast<uintptr_t>(p) & 63);
}

/// Copies n bytes between places that do not overlap: whole lines past the caches, the ends
/// through them. Partly written lines cost a memory read each, so n should be kilobytes.
inline void stream_bytes(void* to, const void* from, int64_t n) {
  char* dst = static_cast<char*>(to);
  const char* src = static_cast<const char*>(from);
  const int64_t head = bytes_to_line(dst) < n ? bytes_to_line(dst) : n;
  copy_short(dst, src, head);
  dst += head;
  src += head;
  const int64_t lines = (n - head) & ~int64_t(63);
  for (int64_t i = 0; i < lines; i += kVectorBytes)
    stream_vector(dst + i, load_vector<Vector<char>>(src + i));
  copy_short(dst + lines, src + lines, n - head - lines);
}

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
