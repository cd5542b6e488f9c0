// Results of widened rows that follow each other anywhere in memory: the lines that hold the end of
// a row and the beginning of the next one.
#pragma once

#include "cpu/memory/tuning.h"
#include "cpu/mvn/lean_rows.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

/// Rows that have been read, but not written: y = (x * factor + shift) * scale + bias.
struct WidenedGroup {
  static constexpr int64_t kLine = 2 * kFloats;  // elements
  static constexpr int64_t kMost = tuning::mvn::kMostWidened;
  static constexpr int64_t kStride = kMost + kLine;  // from a widened row to the next one
  static constexpr int64_t kRows = tuning::mvn::kWidenedRows;

  float* wide;
  int64_t count = 0;
  alignas(32) float factor[kRows], shift[kRows];
};

template <class T>
class WidenedSeams {
 public:
  /// Rows of n elements, `lead` of which stand before the first line of y that begins in a row.
  WidenedSeams(int64_t n, int64_t lead, bool is_streamed)
      : n_(n), lead_(lead), is_streamed_(is_streamed) {}

  /// Copies a row for lines of y: the first one that begins in a row first, last the one that holds
  /// the row's end and the beginning of the next one.
  void copy_turned(const float* row, float* to) const {
    for (int64_t i = 0; i < n_; i += kLine, to += 2 * kLine) {
      const int64_t here = std::min(kLine, n_ - lead_ - i);
      std::memcpy(to, row + lead_ + i, size_t(here) * sizeof *to);
      std::memcpy(to + here, row, size_t(kLine - here) * sizeof *to);
    }
  }

  /// Those of a group's rows from y on; `affine` is the last line of scales, then biases. The
  /// group's last row is kept, as others take its place before its end is written.
  [[gnu::noinline]] void write(const WidenedGroup& g, T* y, const float* affine) {
    Part before = {end_, end_factor_, end_shift_};
    for (int64_t r = 0; r < g.count; ++r) {
      const Part row = {g.wide + r * WidenedGroup::kStride, g.factor[r], g.shift[r]};
      Floats v[2];
      seam(before, row, affine, v);
      T* const line = y + r * n_ + lead_ - kLine;
      if (has_end_)
        put_pair(line, v[0], v[1], is_streamed_, false, kConverts);
      else
        write_part(line, v, kLine - lead_, kLine);
      before = {row.x + n_ - kLine, row.factor, row.shift};
      has_end_ = true;
    }
    std::memcpy(end_, before.x, kLine * sizeof *end_);
    end_factor_ = before.factor;
    end_shift_ = before.shift;
  }

  /// The end of the last row, after which y stands; `room` holds a line of anything.
  void write_end(T* y, const float* affine, const float* room) const {
    Floats v[2];
    seam({end_, end_factor_, end_shift_}, {room, 0, 0}, affine, v);
    write_part(y + lead_ - kLine, v, 0, kLine - lead_);
  }

 private:
  static constexpr int64_t kLine = WidenedGroup::kLine;
  static constexpr std::true_type kConverts = {};  // BFloat16 by the processor

  /// kLine elements that end or begin a row, and its formula.
  struct Part {
    const float* x;
    float factor, shift;
  };

  [[gnu::always_inline]] void seam(const Part& before, const Part& row, const float* affine,
                                   Floats (&v)[2]) const {
#pragma GCC unroll 2
    for (int64_t k = 0; k < 2; ++k) {
      const int64_t at = lead_ + k * kFloats;
      const auto is_before = kLaneIndices < LaneIndices{} + int32_t(kLine - at);
      const Floats x = is_before ? load_vector<Floats>(before.x + at)
                                 : load_vector<Floats>(row.x + at - kLine),
                   factor = is_before ? broadcast(before.factor) : broadcast(row.factor),
                   shift = is_before ? broadcast(before.shift) : broadcast(row.shift);
      v[k] = fused(fused(x, factor, shift), load_vector<Floats>(affine + k * kFloats),
                   load_vector<Floats>(affine + kLine + k * kFloats));
    }
  }

  /// Elements [begin, end) of a line.
  [[gnu::noinline]] static void write_part(T* y, const Floats (&v)[2], int64_t begin, int64_t end) {
    T line[kLine];
    put_pair(line, v[0], v[1], false, false, kConverts);
    std::memcpy(y + begin, line + begin, size_t(end - begin) * sizeof *y);
  }

  const int64_t n_, lead_;
  const bool is_streamed_;
  bool has_end_ = false;                   // a row was written
  alignas(64) float end_[2 * kLine] = {};  // the last kLine elements of the row before
  float end_factor_ = 0, end_shift_ = 0;
};

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
