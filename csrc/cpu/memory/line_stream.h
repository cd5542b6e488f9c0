// Writes output in whole lines past the caches, from pieces of any size that follow each other.
#pragma once

#include "cpu/memory/tuning.h"
#include "cpu/simd/stream.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

/// Pieces are gathered in a buffer that stands to the lines of memory as the output does, because a
/// line that is written in part costs a read of memory. Large pieces go past the buffer too.
class LineStream {
 public:
  static constexpr int64_t kLine = 64;
  /// Bytes that can be reserved at once.
  static constexpr int64_t kShort = 2048;
  static constexpr int64_t kDirect = tuning::memory::kDirectBytes;

  LineStream() = default;
  LineStream(const LineStream&) = delete;
  LineStream& operator=(const LineStream&) = delete;
  ~LineStream() { finish(); }

  /// Writes what is left, before others write to the same places.
  void finish() {
    flush();
    copy_bytes(out_ + lead_, buffer_ + lead_, fill_ - lead_);
    fill_ = lead_;
  }

  /// The next piece belongs at `to`, wherever the last one ended.
  void seek(void* to) {
    if (to == out_ + fill_) return;
    finish();
    lead_ = int64_t(reinterpret_cast<uintptr_t>(to) & (kLine - 1));
    out_ = static_cast<char*>(to) - lead_;
    fill_ = lead_;
  }

  /// Room for the next kShort bytes; commit() says how many of them are there.
  char* reserve() { return buffer_ + fill_; }
  void commit(int64_t n) {
    fill_ += n;
    if (fill_ >= kRoom) flush();
  }

  void copy(const void* from, int64_t n) {
    const char* src = static_cast<const char*>(from);
    if (n >= kDirect) return copy_past(src, n);
    copy_bytes(reserve(), src, n);
    commit(n);
  }

 private:
  static constexpr int64_t kFetched = tuning::memory::kFetchedBytes;
  static constexpr int64_t kAhead = tuning::memory::kCopyAheadBytes;
  static constexpr int64_t kRoom = tuning::memory::kRoomBytes;

  static void stream_lines(char* dst, const char* src, int64_t n) {
    for (int64_t i = 0; i < n; i += kLine) stream_line(dst + i, src + i);
  }

  static void fetch(const char* src, int64_t n) {
    for (int64_t i = 0; i < n; i += kLine) __builtin_prefetch(src + i, 0, 3);
  }

  /// Fills the last line in the buffer and writes the whole lines that follow from where they are;
  /// only then those of the buffer, whose stores are done by now. Always the same stores: what is
  /// too much is overwritten, or stands before the buffer.
  void copy_past(const char* src, int64_t n) {
    const int64_t head = -fill_ & (kLine - 1), lines = (n - head) & -kLine;
    Block<kLine>(src).store(buffer_ + fill_);
    fill_ += head;
    if (n <= kFetched) fetch(src + kAhead, n);
    stream_lines(out_ + fill_, src + head, lines);
    if (lead_ > 0) {
      flush();
    } else {
      stream_lines(out_, buffer_, fill_);
      out_ += fill_;
    }
    out_ += lines;
    fill_ = n - head - lines;
    Block<kLine>(src + n - kLine).store(buffer_ + fill_ - kLine);
  }

  /// Writes all whole lines; what is left of the last one moves to the front.
  void flush() {
    const int64_t whole = fill_ & -kLine;
    if (whole == 0) return;
    if (lead_ > 0) copy_short(out_ + lead_, buffer_ + lead_, kLine - lead_);
    const int64_t first = lead_ > 0 ? kLine : 0;
    stream_lines(out_ + first, buffer_ + first, whole - first);
    Block<kLine>(buffer_ + whole).store(buffer_);
    out_ += whole;
    fill_ -= whole;
    lead_ = 0;
  }

  char* out_ = nullptr;          // the line that buffer_ begins with
  int64_t fill_ = 0, lead_ = 0;  // bytes in the buffer; how many of them are not the output's
  alignas(kLine) char storage_[kLine + kRoom + kShort + kLine] = {};
  char* const buffer_ = storage_ + kLine;
};

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
