// Pairs of columns of a few bytes each, joined by the vector.
#pragma once

#include "cpu/simd/lanes.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

#if defined(__AVX512BW__)

/// Where the words of a vector of results are, for columns of so many bytes, and which bytes are
/// of words that begin late.
struct PairPlaces {
  static constexpr int kMost = 8;  // bytes of a column
  struct {
    int16_t near[kVectorBytes / 2], far[kVectorBytes / 2];
    int8_t late[kVectorBytes];
  } of[kMost + 1] = {};

  constexpr PairPlaces() {
    for (int column = 1; column <= kMost; ++column)
      for (int i = 0; i < kVectorBytes / column * column; ++i) {
        const int from = i / column * 2 * column + i % column, late = (from ^ i) & 1;
        of[column].late[i] = int8_t(-late);
        (late ? of[column].far : of[column].near)[i / 2] = int16_t((from - late) / 2);
      }
  }
};

/// Windows of two columns of a few bytes each, as many as fill a vector: neighbours are joined, and
/// every second result is taken, as bytes of words. Words that begin at odd bytes are those of
/// neighbours joined from one byte on.
class ColumnPairs {
  using Words = Vector<int16_t>;
  using Bytes = Vector<int8_t>;

 public:
  static constexpr int64_t kMost = PairPlaces::kMost;  // bytes of a column

  explicit ColumnPairs(int64_t column)
      : columns(kVectorBytes / column),
        column_(column),
        late_(load_vector<Bytes>(kPlaces.of[column].late)),
        near_(load_vector<Words>(kPlaces.of[column].near)),
        far_(load_vector<Words>(kPlaces.of[column].far)) {}

  template <class Join, class V>
  Vector<V> join_at(const char* p) const {
    const Words near = pick_from<Join, V>(p, near_);
    if (column_ % 2 == 0) return same_bits<Vector<V>>(near);
    const Words far = pick_from<Join, V>(p + 1, far_);
    return same_bits<Vector<V>>(late_ != 0 ? same_bits<Bytes>(far) : same_bits<Bytes>(near));
  }

  const int64_t columns;  // that come of both

 private:
  template <class Join, class V>
  Words pick_from(const char* p, const Words& words) const {
    const auto joined = [&](const char* at) {
      return same_bits<Words>(
          Join::join(load_vector<Vector<V>>(at), load_vector<Vector<V>>(at + column_)));
    };
    return shuffled(joined(p), joined(p + kVectorBytes), words);
  }

  static constexpr PairPlaces kPlaces{};
  const int64_t column_;
  const Bytes late_;
  const Words near_, far_;
};

#elif defined(__SSSE3__)

/// Bytes of columns of a few bytes each, every second one of 16 bytes at p and of as many columns
/// that follow: those of even place and those of odd.
class ColumnPairs {
 public:
  static constexpr int64_t kMost = 8;  // bytes of a column

  explicit ColumnPairs(int64_t column) : columns(16 / column), bytes_(columns * column) {
    for (int64_t i = 0; i < 16; ++i)
      for (int64_t odd = 0; odd < 2; ++odd) {
        const int64_t from = (i / column * 2 + odd) * column + i % column;
        near_[odd][i] = i < bytes_ && from < bytes_ ? char(from) : kNone;
        far_[odd][i] = i < bytes_ && from >= bytes_ ? char(from - bytes_) : kNone;
      }
  }

  template <class Join, class V>
  Vector<V, 16> join_at(const char* p) const {
    return Join::join(pick_from<V>(p, 0), pick_from<V>(p, 1));
  }

  const int64_t columns;  // that come of both

 private:
  static constexpr char kNone = -128;
  template <class V>
  Vector<V, 16> pick_from(const char* p, int odd) const {
    const __m128i near = _mm_shuffle_epi8(load(p), load(near_[odd]));
    return same_bits<Vector<V, 16>>(
        _mm_or_si128(near, _mm_shuffle_epi8(load(p + bytes_), load(far_[odd]))));
  }
  static __m128i load(const char* p) {
    return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  }

  int64_t bytes_;
  char near_[2][16], far_[2][16];
};

#else

/// No column is short enough to be one of several in a vector.
struct ColumnPairs {
  static constexpr int64_t kMost = 0;  // bytes of a column
};

#endif

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
