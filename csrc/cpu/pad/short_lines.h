// Lines of a few elements under a longer dimension: one position of many lines at a time.
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
  return plan.axis[line.outer_rank - 1].out >= kFewestShortLines;
}

/// One position of many lines at a time.
template <class T>
class ShortLines {
 public:
  ShortLines(const PadAxis& line_axis, const PadAxis& outer_axis, T constant)
      : line(line_axis), outer(outer_axis), value(constant) {
    for (int64_t p = 0; p < line.out; ++p) {
      const int64_t i = border_index(line.mode, p - line.start, line.in);
      source[p] = i < 0 ? -1 : i * line.x_stride;
    }
  }

  /// Lines [from, to) of those that begin at x, or are constant where x is null; the first of them
  /// at dst.
  void write(const T* x, T* dst, int64_t from, int64_t to) const {
    const int64_t left = std::clamp(outer.start, from, to);
    const int64_t right = std::clamp(outer.start + outer.in, from, to);
    border(x, dst, from, left);
    if (left < right)
      put(x ? x + (left - outer.start) * outer.x_stride : x, dst + (left - from) * outer.y_stride,
          right - left);
    border(x, dst + (right - from) * outer.y_stride, right, to);
  }

 private:
  void border(const T* x, T* dst, int64_t from, int64_t to) const {
    if (!x || outer.mode == Border::constant) return put(nullptr, dst, to - from);
    for (; from < to; ++from, dst += outer.y_stride)
      put(x + border_index(outer.mode, from - outer.start, outer.in) * outer.x_stride, dst, 1);
  }

  /// Lines that follow each other on both sides.
  void put(const T* x, T* dst, int64_t lines) const {
    for (int64_t from = 0; from < lines; from += kBlock) {
      const int64_t n = std::min(kBlock, lines - from);
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

  static constexpr int64_t kBlock = 64;

  const PadAxis &line, &outer;
  T value;
  int64_t source[kLongestShortLine];  // offset from the line's first element; -1: constant
};

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
