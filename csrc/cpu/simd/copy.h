// Copies of rows. The C library's memcpy turns to `rep movsb` at a few kilobytes, which runs at a
// third of the speed where the destination is not aligned, as the rows of a padded image are.
#pragma once

#include "cpu/simd/vector.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

/// kBytes in registers: a vector, or two halves. Compilers leave an array of vectors on the stack.
template <int kBytes, bool kIsOne = kBytes <= kVectorBytes>
struct Block {
  Vector<char, kBytes> bytes;

  explicit Block(const char* src) : bytes(load_vector<Vector<char, kBytes>>(src)) {}
  explicit Block(const Vector<char, kBytes>& v) : bytes(v) {}
  void store(char* dst) const { store_vector(dst, bytes); }
};

template <int kBytes>
struct Block<kBytes, false> {
  Block<kBytes / 2> first, second;

  explicit Block(const char* src) : first(src), second(src + kBytes / 2) {}
  void store(char* dst) const {
    first.store(dst);
    second.store(dst + kBytes / 2);
  }
};

/// kBytes to 2 * kBytes, in two blocks that may overlap each other.
template <int kBytes>
inline void copy_ends(char* dst, const char* src, int64_t n) {
  const Block<kBytes> first(src), last(src + n - kBytes);
  first.store(dst);
  last.store(dst + n - kBytes);
}

inline void copy_short(char* dst, const char* src, int64_t n) {
  if (n >= 32)
    copy_ends<32>(dst, src, n);
  else if (n >= 16)
    copy_ends<16>(dst, src, n);
  else if (n >= 8)
    copy_ends<8>(dst, src, n);
  else if (n >= 4)
    copy_ends<4>(dst, src, n);
  else if (n >= 2)
    copy_ends<2>(dst, src, n);
  else if (n == 1)
    *dst = *src;
}

/// Copies n bytes between places that do not overlap, with aligned stores but for both ends.
inline void copy_bytes(void* to, const void* from, int64_t n) {
  char* dst = static_cast<char*>(to);
  const char* src = static_cast<const char*>(from);
  if (n < 64) return copy_short(dst, src, n);
  constexpr int kStep = 4 * kVectorBytes;
  char* const end = dst + n;
  Block<64>(src).store(dst);
  const auto skip = int64_t(64 - (reinterpret_cast<uintptr_t>(dst) & 63));
  dst += skip;
  src += skip;
  for (; dst + kStep <= end; dst += kStep, src += kStep) Block<kStep>(src).store(dst);
  for (; dst + kVectorBytes <= end; dst += kVectorBytes, src += kVectorBytes)
    Block<kVectorBytes>(src).store(dst);
  const int64_t rest = end - dst;
  if (rest > 0) Block<kVectorBytes>(src + rest - kVectorBytes).store(end - kVectorBytes);
}

/// dst[i] = src[which[i]] for i in [0, n), one after the other.
inline void pick_each(char* dst, const char* src, const unsigned char* which, int64_t n) {
  for (int64_t i = 0; i < n; ++i) dst[i] = src[which[i]];
}

/// A line put together of 16 bits each, one after the other: number i of the 32 is number which[i]
/// of those at `a` and then at `b`, or number i of those at `rest` where which[i] is negative.
inline Block<64> merge_each(const char* a, const char* b, const char* which, const char* rest) {
  int16_t from[32], halves[3 * 32];
  std::memcpy(from, which, sizeof from);
  Block<64>(a).store(reinterpret_cast<char*>(halves));
  Block<64>(b).store(reinterpret_cast<char*>(halves + 32));
  Block<64>(rest).store(reinterpret_cast<char*>(halves + 64));
  int16_t line[32];
  for (int i = 0; i < 32; ++i) line[i] = halves[from[i] < 0 ? 64 + i : from[i]];
  return Block<64>(reinterpret_cast<const char*>(line));
}

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
