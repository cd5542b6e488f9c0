// Lines of a few elements under an unpadded dimension: one position of many lines at a time.
#pragma once

#include "cpu/memory/tuning.h"
#include "cpu/pad/plain.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

using tuning::pad::kFewestShortLines;
using tuning::pad::kLongestShortLine;

inline bool fits_short_lines(const PadPlan& plan) {
  const Line line = line_of(plan);
  if (line.run > 1 || line.outer_rank == 0 || line.axis.out > kLongestShortLine) return false;
  const PadAxis& outer = plan.axis[line.outer_rank - 1];
  return !outer.is_padded() && outer.out >= kFewestShortLines;
}

/// One position of many lines at a time.
template <class T>
struct ShortLines {
  static constexpr int64_t kBlock = 64;

  const PadAxis &line, &outer;
  T value;
  int64_t source[kLongestShortLine];  // offset from the line's first element; -1: constant

  ShortLines(const PadAxis& line_axis, const PadAxis& outer_axis, T constant)
      : line(line_axis), outer(outer_axis), value(constant) {
    for (int64_t p = 0; p < line.out; ++p) {
      const int64_t i = border_index(line.mode, p - line.start, line.in);
      source[p] = i < 0 ? -1 : i * line.x_stride;
    }
  }

  /// Lines [from, to) of those that begin at x, the first of them at dst.
  void write(const T* x, T* dst, int64_t from, int64_t to) const {
    for (; from < to; from += kBlock) {
      const int64_t n = std::min(kBlock, to - from);
      for (int64_t p = 0; p < line.out; ++p, dst += line.y_stride) {
        if (!x || source[p] < 0) {
          for (int64_t i = 0; i < n; ++i) dst[i * outer.y_stride] = value;
        } else {
          const T* const src = x + from * outer.x_stride + source[p];
          for (int64_t i = 0; i < n; ++i) dst[i * outer.y_stride] = src[i * outer.x_stride];
        }
      }
      dst += n * outer.y_stride - line.out * line.y_stride;
    }
  }
};

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
