// Borders of packed lines of padding, each in a few pieces that come from neighbours in the row.
#pragma once

#include "cpu/pad/plain.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

/// Bytes of a border that come from as many bytes of the row.
struct BorderPiece {
  alignas(16) unsigned char which[16];
  int64_t to, from;  // offsets in the line and in the row
  int64_t count;

  template <int kBytes>
  void write(const char* x, char* dst) const {
    pick_bytes<kBytes>(dst + to, x + from, which, count);
  }
};

struct BorderPieces {
  static constexpr int kMost = 32;
  int count = 0;
  BorderPiece piece[kMost];

  /// Cuts positions [begin, end) of a line into pieces of up to `most` bytes; false where they are
  /// too many. A position has `item` bytes.
  bool cut(const PadAxis& a, int64_t item, int64_t begin, int64_t end, int64_t most) {
    const int64_t row = a.in * item;
    if ((end - begin) * item > kMost * most) return false;
    int64_t sources[16], filled = most, low = 0, high = 0;
    for (int64_t at = begin * item; at < end * item; ++at) {
      const int64_t position = at / item;
      const int64_t source = border_index(a.mode, position - a.start, a.in) * item + at % item;
      low = std::min(low, source);
      high = std::max(high, source);
      if (filled == most || high - low >= most) {
        if (count == kMost) return false;
        ++count;
        filled = 0;
        low = high = source;
      }
      sources[filled++] = source;
      BorderPiece& last = piece[count - 1];
      last.to = at + 1 - filled;
      last.count = filled;
      last.from = std::min(low, row - most);
      for (int64_t i = 0; i < filled; ++i)
        last.which[i] = static_cast<unsigned char>(sources[i] - last.from);
    }
    return true;
  }

  template <int kBytes>
  void write(const char* x, char* dst) const {
    for (int i = 0; i < count; ++i) piece[i].template write<kBytes>(x, dst);
  }
};

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
