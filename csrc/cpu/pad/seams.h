// Packed lines of padding put together in registers, and written in whole lines of memory.
#pragma once

#include "cpu/memory/tuning.h"
#include "cpu/pad/plain.h"
#include "cpu/simd/stream.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

/// Lines of memory (64 bytes) are loaded from the rows of x wherever these begin. A line that holds
/// a seam, the border behind a row and the one before the next, is a permutation of the 64 bytes
/// that end the one row and the 64 that begin the other.
class Seams {
 public:
  static constexpr int64_t kLine = 64;  // bytes, and the shortest row
  static constexpr int64_t kLongest = tuning::pad::kLongestSeamBytes;
  static constexpr int64_t kMost = 64;  // bytes of a seam

  /// Of packed lines; false where rows are too short, borders too wide or their sources too far.
  bool prepare(const PadPlan& plan, const Line& line) {
    const PadAxis& a = line.axis;
    item_ = line.run * plan.item_size;
    row_ = a.in * item_;
    left_ = a.start * item_;
    seam_ = (a.out - a.in) * item_;
    if (row_ < kLine || row_ > kLongest || seam_ > kMost) return false;
    if (plan.item_size < 2) return false;
    for (int i = 0; i < kLine; ++i) value_[i] = plan.value.bytes[i % plan.item_size];
    for (int64_t i = 0; i < kLine + seam_ + kLine; i += 2) {
      const int64_t from = source(a, i - kLine);
      if (from < 0 && from != kConstant) return false;
      which_[i / 2] = static_cast<int16_t>(from < 0 ? -1 : from / 2);
    }
    return true;
  }

  int64_t row() const { return row_; }    // bytes
  int64_t seam() const { return seam_; }  // bytes of both borders
  int64_t right() const { return seam_ - left_; }
  int64_t bytes() const { return row_ + seam_; }
  const char* constant() const { return value_; }

  /// The line that begins at byte `at` of a seam; the row before it ends with the 64 bytes at
  /// `before`, the next one begins at `behind`.
  Block<kLine> line(const char* before, const char* behind, int64_t at) const {
    return merged_line(before, behind, reinterpret_cast<const char*>(which_) + kLine + at, value_);
  }

 private:
  static constexpr int64_t kConstant = -1, kFar = -2;

  /// Where byte `at` of a seam comes from: of the 64 bytes before it, then the 64 behind it.
  int64_t source(const PadAxis& a, int64_t at) const {
    if (at < 0) return kLine + at;
    if (at >= seam_) return kLine + at - seam_;
    const bool is_left = at >= right();
    const int64_t byte = is_left ? at - right() : left_ + row_ + at;
    const int64_t i = border_index(a.mode, byte / item_ - a.start, a.in);
    if (i < 0) return kConstant;
    const int64_t from = i * item_ + byte % item_ - (is_left ? 0 : row_ - kLine);
    if (from < 0 || from >= kLine) return kFar;
    return from + (is_left ? kLine : 0);
  }

  int64_t item_, row_, left_, seam_;  // bytes
  alignas(kLine) char value_[kLine];
  int16_t which_[(kLine + kMost + kLine) / 2];
};

/// Where such lines go, in order: past the caches.
class SeamOutput {
 public:
  static constexpr int64_t kLine = Seams::kLine, kAhead = tuning::pad::kSeamAheadBytes;

  SeamOutput(const Seams& seams, char* y)
      : seams_(seams), lead_(int64_t(reinterpret_cast<uintptr_t>(y) & (kLine - 1))) {
    y_ = y - lead_;
    before_ = seams.constant();  // until there is one, anything
    at_ = seams.right() - lead_;
  }

  /// n rows from x, x + step, ...; constant where x is null.
  void put(const char* x, int64_t step, int64_t n) {
    if (n == 0) return;
    if (lead_ > 0) first(x ? x : seams_.constant());
    if (!x) return fill(n);
    const int64_t row = seams_.row(), seam = seams_.seam();
    const char* before = before_;
    int64_t at = at_;
    for (; n > 0; --n, x += step) {
      __builtin_prefetch(x + row + kAhead, 0, 3);
      for (; at < seam; at += kLine) write(seams_.line(before, x, at));
      for (at -= seam; at + kLine <= row; at += kLine) {
        __builtin_prefetch(x + at + kAhead, 0, 3);
        write(Block<kLine>(x + at));
      }
      at -= row;
      before = x + row - kLine;
    }
    at_ = at;
    before_ = before;
  }

  void put_last(const char* x) {
    put(x, 0, 1);
    for (; at_ + kLine <= seams_.right(); at_ += kLine) write(seams_.line(before_, before_, at_));
    if (const int64_t n = seams_.right() - at_; n > 0)
      write_part(seams_.line(before_, before_, at_), 0, n);
  }

 private:
  /// n rows of the constant.
  void fill(int64_t n) {
    const char* const value = seams_.constant();
    for (; at_ < seams_.right(); at_ += kLine) write(seams_.line(before_, value, at_));
    at_ -= n * seams_.bytes();
    for (; at_ + kLine <= 0; at_ += kLine) write(Block<kLine>(value));
    before_ = value;
  }

  void write(const Block<kLine>& line) {
    stream_block(y_, line);
    y_ += kLine;
  }

  /// Bytes [from, to) of a line.
  void write_part(const Block<kLine>& line, int64_t from, int64_t to) {
    char bytes[kLine];
    line.store(bytes);
    copy_short(y_ + from, bytes + from, to - from);
  }

  /// The line that the output begins in.
  void first(const char* x) {
    write_part(seams_.line(x, x, at_), lead_, kLine);
    y_ += kLine;
    at_ += kLine;
    lead_ = 0;
  }

  const Seams& seams_;
  int64_t lead_;  // bytes of the first line that are not the output's
  int64_t at_;    // where the next line begins in the next seam
  char* y_;
  const char* before_;  // the last 64 bytes of the row before
};

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
