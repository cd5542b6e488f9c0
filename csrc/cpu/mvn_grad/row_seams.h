// The lines of memory that packed rows of dx share, put together so that all lines are written
// whole.
#pragma once

#include <algorithm>

#include "cpu/memory/tuning.h"
#include "cpu/simd/stream.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

using tuning::mvn_grad::kMostBatched;

/// The seams of a batch of rows of whole lines' lengths that follow each other and begin `head`
/// elements before a line: seam r holds the last elements of row r - 1, then the first ones of row
/// r.
template <class T>
class RowSeams {
 public:
  RowSeams(int64_t head, int64_t n) : head_(head), tail_(kLine - head), n_(n) {}
  ~RowSeams() { write_tail(lines_[0]); }
  RowSeams(const RowSeams&) = delete;
  RowSeams& operator=(const RowSeams&) = delete;

  int64_t head() const { return head_; }

  /// From where element i of row r is written at [i]: of its first ones, and of its last.
  T* first(int64_t r) { return lines_[r] + tail_; }
  T* last(int64_t r) { return lines_[r + 1] - (n_ - tail_); }

  /// Row r stands at `row`, and has been written but for its seams. Rows are put in order, from 0
  /// on.
  void put(int64_t r, T* row) {
    T* const line = lines_[r];
    if (row == end_) {
      stream_line(reinterpret_cast<char*>(row - tail_), reinterpret_cast<const char*>(line));
    } else {
      write_tail(line);
      std::copy_n(line + tail_, head_, row);
    }
    end_ = row + n_;
  }

  /// After the last of `count` rows.
  void finish(int64_t count) { std::copy_n(lines_[count], tail_, lines_[0]); }

 private:
  static constexpr int64_t kLine = 64 / int64_t(sizeof(T));

  /// The last elements of the row before a seam, if they have not been written.
  void write_tail(const T* line) {
    if (end_) std::copy_n(line, tail_, end_ - tail_);
  }

  int64_t head_, tail_, n_;
  T* end_ = nullptr;  // of the last row
  alignas(64) T lines_[kMostBatched + 1][kLine];
};

/// How rows of dx reach memory: past the caches, and what does not fill lines by way of seams.
template <class T>
struct RowFlow {
  bool is_streamed = false;
  RowSeams<T>* seams = nullptr;
};

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
