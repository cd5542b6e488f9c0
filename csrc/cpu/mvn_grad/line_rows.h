// dx of columns whose rows follow each other but are no lines of memory: it is written as other
// rows, which are.
#pragma once

#include <algorithm>
#include <numeric>

#include "cpu/mvn_grad/column_block.h"
#include "cpu/threads/arena.h"
#include "cpu/threads/interrupt.h"
#include "cpu/threads/parallel.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

/// A few rows are joined to one of whole tiles, and each begins with the first line of dx in it, so
/// that tiles are written past the caches: else each line would be read before. An element's bits
/// are the same in any tile.
template <class T>
class LineRows {
 public:
  LineRows(const MvnGradPlan& plan, const Operands& o, const GradColumns& rows)
      : plan_(plan),
        operands_(o),
        dx_(static_cast<T*>(o.outputs[0])),
        joined_(std::max<int64_t>(2, kTileColumns / std::gcd(kTileColumns, rows.columns))),
        do_suit_(are_suitable(rows)),
        layout_(do_suit_ ? rows.joined(joined_) : rows),
        width_(std::min(kBlockColumns, layout_.columns)),
        elements_(rows.rows * rows.columns),
        part_rows_(std::max(kPartElements / layout_.columns / kStripRows, int64_t(1)) * kStripRows),
        parts_((layout_.rows + part_rows_ - 1) / part_rows_) {}

  bool do_suit() const { return do_suit_; }

  /// Writes dx of all columns.
  void write(const ColumnStates<float>& states) const {
    parallel_for(layout_.outer * parts_, plan_.compulsory_bytes(), [&](int64_t begin, int64_t end) {
      const Room<ColumnBlock<T>> block(plan_, operands_, layout_);
      for (int64_t i = begin; i < end; ++i) write_part(i / parts_, i % parts_, states, *block);
    });
  }

 private:
  static constexpr bool kAreLines = kTileColumns * int64_t(sizeof(T)) % 64 == 0;
  static constexpr int64_t kPartElements = 1 << 16;
  static constexpr ColumnWork kWrite{false, false, true};

  bool are_suitable(const GradColumns& rows) const {
    if (!kAreLines || !plan_.wants_dx || rows.row_rank != 1 || rows.is_gathered) return false;
    if (!is_norm_streamed(plan_.compulsory_bytes() / 2)) return false;
    if (!GradColumns::is_packed(plan_, rows.reduced[0], rows.columns)) return false;
    const bool are_lines = rows.columns % kTileColumns == 0 && bytes_to_line(dx_) == 0;
    return !are_lines && joined_ * rows.columns <= tuning::mvn_grad::kMostJoinedColumns &&
           rows.rows >= kStripRows * joined_;
  }

  /// Columns from the first line on, and in the first and the last part what is before the first
  /// row of these and behind the last one.
  void write_part(int64_t outer, int64_t part, const ColumnStates<float>& states,
                  ColumnBlock<T>& block) const {
    const int64_t head = head_of(outer), rows = (elements_ - head) / layout_.columns,
                  first = std::min(rows, part * part_rows_),
                  last = std::min(rows, first + part_rows_);
    if (part == 0) write_piece(outer, 0, head, states, block);
    for (int64_t c = 0; c < layout_.columns; c += width_) {
      block.begin({outer, head + c, std::min(width_, layout_.columns - c)}, states);
      for (int64_t r = first; r < last; r += kStripRows) {
        checkpoint();
        block.run(r, std::min(kStripRows, last - r), kWrite);
      }
    }
    if (part == parts_ - 1)
      write_piece(outer, head + rows * layout_.columns, elements_, states, block);
  }

  /// Elements [first, last), counted from the first column on through all rows.
  void write_piece(int64_t outer, int64_t first, int64_t last, const ColumnStates<float>& states,
                   ColumnBlock<T>& block) const {
    for (int64_t n; first < last; first += n) {
      n = std::min(width_, last - first);
      block.begin({outer, first, n}, states);
      block.run(0, 1, kWrite);
    }
  }

  /// Elements to the first line of dx.
  int64_t head_of(int64_t outer) const {
    const GradOffsets at = GradWalk(plan_.kept, layout_.outer_rank, outer).offsets();
    return bytes_to_line(dx_ + at.dx) / int64_t(sizeof(T));
  }

  const MvnGradPlan& plan_;
  const Operands& operands_;
  T* dx_;
  int64_t joined_;  // rows
  bool do_suit_;
  GradColumns layout_;  // of joined rows
  int64_t width_, elements_, part_rows_, parts_;
};

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
