// Packed lines of padding, in vectors that overlap each other.
#pragma once

#include <algorithm>
#include <optional>

#include "cpu/isa/processor.h"
#include "cpu/memory/line_stream.h"
#include "cpu/memory/tuning.h"
#include "cpu/pad/border_pieces.h"
#include "cpu/threads/parallel.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

/// Every line is written with the same stores, for the processor to foresee: each vector but the
/// last may write too far, where a later one, of this line or the next, puts what belongs there.
class PackedLines {
 public:
  static constexpr int64_t kLongest = tuning::pad::kLongestPackedBytes;
  static constexpr int64_t kBorder = LineStream::kShort;  // bytes on both sides together
  static constexpr int64_t kNarrow = 16;   // rows from here on have pieces of 16 bytes
  static constexpr int64_t kShortest = 8;  // others of 8, and none is shorter
  static constexpr int64_t kAhead = tuning::pad::kPackedAheadBytes;

  /// Of an output of so many bytes. False where the lines are not packed, too long, too short, or
  /// their borders too irregular.
  bool prepare(const PadPlan& plan, const Line& line, int64_t bytes, bool is_past_caches) {
    const PadAxis& a = line.axis;
    const int64_t item = line.run * plan.item_size;
    if (a.x_stride != line.run || a.y_stride != line.run || line.outer_rank == 0) return false;
    if (a.in * item < kShortest || a.out > kLongest / item || (a.out - a.in) * item > kBorder)
      return false;
    left_ = a.start * item;
    row_ = a.in * item;
    out_ = a.out * item;
    // Shorter rows are written faster than put together, whatever the size of the output.
    is_streamed_ = is_past_caches && row_ >= LineStream::kDirect;
    is_constant_ = a.mode == Border::constant;
    for (int i = 0; i < kVectorBytes; ++i) value_[i] = plan.value.bytes[i % plan.item_size];
    const int64_t piece = is_narrow() ? 8 : 16;
    if (!is_constant_ && !is_past_caches && item >= tuning::pad::kLongRunBytes) return false;
    const bool fits = is_constant_ || (lefts_.cut(a, item, 0, a.start, piece) &&
                                       rights_.cut(a, item, a.start + a.in, a.out, piece));
    // Past the caches, short rows between two pieces take up to twice as long with it.
    is_ahead_ =
        processor.is_told_of_runs && cpu::is_streamed(bytes) && !(is_past_caches && is_mirrored());
    return fits;
  }

  int64_t bytes() const { return out_; }

  bool is_streamed() const { return is_streamed_; }

  /// n lines from x, x + step, ...; constant where x is null. May write a piece less one byte past
  /// the last one.
  void write(const char* x, int64_t step, char* dst, int64_t n) const {
    if (!x) return is_narrow() ? fill<8>(dst, n * out_) : fill<16>(dst, n * out_);
    if (is_narrow()) return write_as<8>(x, step, dst, n);
    if constexpr (kVectorBytes > 32)
      if (row_ >= kVectorBytes) return write_as<kVectorBytes>(x, step, dst, n);
    if constexpr (kVectorBytes > 16)
      if (row_ >= 32) return write_as<32>(x, step, dst, n);
    write_as<16>(x, step, dst, n);
  }

  /// As write(), past the caches.
  void stream(const char* x, int64_t step, LineStream& out, int64_t n) const {
    if (!x) return stream_constant(out, n * out_);
    for (; n > 0; --n, x += step) {
      border<16>(x, out.reserve(), 0, left_, lefts_);
      out.commit(left_);
      out.copy(x, row_);
      border<16>(x, out.reserve(), left_ + row_, out_, rights_);
      out.commit(out_ - row_ - left_);
    }
  }

  /// One line with nothing written past it.
  void write_exactly(const char* x, char* dst) const {
    if (x) return is_narrow() ? write_exactly_as<8>(x, dst) : write_exactly_as<16>(x, dst);
    alignas(64) char constant[kBorder];
    fill<16>(constant, kBorder);
    for (int64_t i = 0; i < out_; i += kBorder)
      copy_bytes(dst + i, constant, std::min(kBorder, out_ - i));
  }

 private:
  bool is_narrow() const { return row_ < kNarrow; }
  bool is_mirrored() const { return !is_constant_ && lefts_.count == 1 && rights_.count == 1; }

  /// Bytes [from, to) of a line to dst.
  template <int kPiece>
  void border(const char* x, char* dst, int64_t from, int64_t to,
              const BorderPieces& pieces) const {
    if (is_constant_) return fill<kPiece>(dst, to - from);
    pieces.write<kPiece>(x, dst - from);
  }

  template <int kPiece>
  void write_exactly_as(const char* x, char* dst) const {
    alignas(64) char bytes[kBorder + kVectorBytes];
    border<kPiece>(x, bytes, 0, left_, lefts_);
    copy_bytes(dst, bytes, left_);
    copy_bytes(dst + left_, x, row_);
    border<kPiece>(x, bytes, left_ + row_, out_, rights_);
    copy_bytes(dst + left_ + row_, bytes, out_ - row_ - left_);
  }

  void stream_constant(LineStream& out, int64_t bytes) const {
    for (int64_t n; bytes > 0; bytes -= n) {
      n = std::min(bytes, LineStream::kShort);
      fill<16>(out.reserve(), n);
      out.commit(n);
    }
  }

  template <int kPiece>
  void fill(char* dst, int64_t n) const {
    const auto value = load_vector<Vector<char>>(value_);
    for (; n >= kVectorBytes; n -= kVectorBytes, dst += kVectorBytes) store_vector(dst, value);
    for (; n > 0; n -= kPiece, dst += kPiece) std::memcpy(dst, value_, kPiece);
  }

  /// Lines of memory that are read and written soon, from a cache that is far: the processor itself
  /// fetches those of the output late.
  template <int kBytes>
  static void fetch_ahead(const char* x, const char* dst) {
    for (int i = 0; i < kBytes; i += 64) {
      __builtin_prefetch(x + kAhead + i, 0, 3);
      __builtin_prefetch(dst + kAhead + i, 1, 3);
    }
  }

  template <int kBytes>
  void copy(const char* x, char* dst, int64_t n) const {
    const bool is_ahead = is_ahead_;
    int64_t i = 0;
    for (; i + 4 * kBytes < n; i += 4 * kBytes) {
      if (is_ahead) fetch_ahead<4 * kBytes>(x + i, dst + i);
      Block<4 * kBytes>(x + i).store(dst + i);
    }
    for (; i + kBytes < n; i += kBytes) Block<kBytes>(x + i).store(dst + i);
    Block<kBytes>(x + n - kBytes).store(dst + n - kBytes);
  }

  /// Rows whose borders are a piece each. What the loop needs is held in registers: loaded for each
  /// row, beside stores that miss the caches, it took a tenth longer.
  template <int kBytes, int kPiece>
  void write_mirrored(const char* x, int64_t step, char* dst, int64_t n) const {
    const BorderPiece before = lefts_.piece[0], behind = rights_.piece[0];
    const int64_t row = row_, left = left_, out = out_;
    const bool is_ahead = is_ahead_;
    constexpr int kLine = std::max(64, kBytes);
    for (; n > 0; --n, x += step, dst += out) {
      before.write<kPiece>(x, dst);
      int64_t i = 0;
      for (; i + kLine < row; i += kLine) {
        if (is_ahead) fetch_ahead<kLine>(x + i, dst + left + i);
        Block<kLine>(x + i).store(dst + left + i);
      }
      for (; i + kBytes < row; i += kBytes) Block<kBytes>(x + i).store(dst + left + i);
      Block<kBytes>(x + row - kBytes).store(dst + left + row - kBytes);
      behind.write<kPiece>(x, dst);
    }
  }

  template <int kBytes>
  void write_as(const char* x, int64_t step, char* dst, int64_t n) const {
    constexpr int kPiece = std::min(kBytes, 16);
    const int64_t row = row_, left = left_, end = left + row;
    if (is_mirrored()) return write_mirrored<kBytes, kPiece>(x, step, dst, n);
    if (!is_constant_) {
      for (; n > 0; --n, x += step, dst += out_) {
        lefts_.write<kPiece>(x, dst);
        copy<kBytes>(x, dst + left, row);
        rights_.write<kPiece>(x, dst);
      }
      return;
    }
    // The border behind a line and the one before the next are one stretch.
    fill<kPiece>(dst, left);
    for (; n > 1; --n, x += step, dst += out_) {
      copy<kBytes>(x, dst + left, row);
      fill<kPiece>(dst + end, out_ - row);
    }
    copy<kBytes>(x, dst + left, row);
    fill<kPiece>(dst + end, out_ - end);
  }

  int64_t left_, row_, out_;  // bytes
  bool is_constant_, is_streamed_, is_ahead_;
  char value_[kVectorBytes];
  BorderPieces lefts_, rights_;
};

/// Where packed lines go: straight to the output, or past the caches.
class PackedOutput {
 public:
  PackedOutput(const PackedLines& lines, char* y) : lines_(lines), y_(y) {
    if (lines.is_streamed()) stream_.emplace().seek(y);
  }

  void put(const char* x, int64_t step, int64_t n) {
    if (n == 0) return;
    if (stream_) return lines_.stream(x, step, *stream_, n);
    lines_.write(x, step, y_, n);
    y_ += n * lines_.bytes();
  }

  /// Writes nothing past it.
  void put_last(const char* x) {
    if (stream_) return put(x, 0, 1);
    lines_.write_exactly(x, y_);
  }

 private:
  const PackedLines& lines_;
  char* y_;
  std::optional<LineStream> stream_;
};

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
