// How a plan's blocks of columns are read and written: in parts of their rows, as runs, past the
// caches.
#pragma once

#include "cpu/memory/tuning.h"
#include "cpu/mvn/column_gather.h"
#include "cpu/mvn/column_states.h"
#include "cpu/threads/interrupt.h"
#include "cpu/threads/parallel.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

constexpr int64_t kPartBytes = 1 << 18;  // of kFewColumns of x that one task sums
template <class T>
constexpr int64_t kRowsAtOnce = 16 / sizeof(T);
/// Whether runs have a loop of their own; for halves only in the widest vectors, as code is long.
template <class T>
constexpr bool kSumsRuns = !kIsHalf<T> || kHasLineVectors;

template <class T>
struct TileLayout {
  const MvnPlan& plan;
  const T* const x;
  T* const y;
  const Blocks blocks;
  const ColumnRows<T> in;
  int64_t row_size, part_rows, parts;  // elements of a row; rows of a part
  bool is_run, is_summed_as_run, is_streamed;

  TileLayout(const MvnPlan& of, const Operands& o)
      : plan(of),
        x(static_cast<const T*>(o.inputs[0])),
        y(static_cast<T*>(o.outputs[0])),
        blocks(of, sizeof(T), to_line(y)),
        in(blocks) {
    row_size = blocks.width * blocks.repeat;
    const int64_t row_bytes = row_size * int64_t(sizeof(T));
    const int64_t step = blocks.step * blocks.repeat,
                  few_bytes = std::clamp<int64_t>(step, 1, kFewColumns) * int64_t(sizeof(T));
    part_rows = (kPartBytes / few_bytes + kRowsAtOnce<T>) / kRowsAtOnce<T> * kRowsAtOnce<T>;
    parts = (blocks.rows + part_rows - 1) / part_rows;
    is_run = blocks.is_run && row_bytes % 64 == 0;
    for (int d = 0; d < blocks.layout.reduced_rank - 1; ++d)
      is_run &= plan.reduced[d].y * int64_t(sizeof(T)) % 64 == 0 &&
                blocks.stretch * row_bytes >= 2 * kRunAheadBytes;
    is_summed_as_run =
        kSumsRuns<T> && blocks.is_even && step % kRunColumns == 0 && kRunColumns % blocks.step == 0;
    is_streamed =
        !is_handed_out() &&
        (row_bytes >= 2048 || (row_bytes % 64 == 0 && (is_run || bytes_to_line(y) == 0))) &&
        is_norm_streamed(plan.groups * plan.group_size * int64_t(sizeof(T)));
  }

  /// What stands `bytes` or more after a row at `from`, or null, of which `count` rows are to be
  /// read.
  const T* ahead(const Blocks::Block& b, int64_t row, const T* from, int64_t bytes,
                 int64_t count = 1) const {
    const int64_t row_bytes = row_size * int64_t(sizeof(T)), far = bytes / row_bytes + 1;
    if (row + far + count > blocks.rows) return nullptr;
    if (blocks.stretch == blocks.rows) return from + far * blocks.row_step();
    return row_bytes >= tuning::mvn::kWorthBytes ? x + blocks.at(b, row + far).x : nullptr;
  }

  /// Elements before the first row of a run: rows then begin lines, and so do the formula's.
  int64_t head(const T* run) const { return is_run && is_streamed ? to_line(run) : 0; }

  /// Elements of rows [first, end) of a block.
  int64_t elements(const Blocks::Block& b, int64_t first, int64_t end) const {
    return (end - first - 1) * b.width * blocks.repeat + blocks.row_width(b, end - 1);
  }

  /// Whether results are computed elsewhere: y's columns stand apart, or rows of several do.
  bool is_handed_out() const {
    return !blocks.layout.are_packed(&MvnAxis::y) || (blocks.repeat > 1 && !blocks.is_run);
  }
};

/// One thread's rows, its room for rows that are read or written elsewhere, and when it looks
/// whether the call is still wanted: however few bytes a part has in memory, it may be long.
template <class T>
struct TileScratch : BlockScratch {
  ColumnRoom<T> room;
  Pace pace;

  explicit TileScratch(const TileLayout<T>& t)
      : room(t.in.is_gathered || t.is_handed_out() || (t.is_summed_as_run && !t.blocks.is_packed)
                 ? ColumnRows<T>::kRoom
                 : 0,
             t.in.is_gathered || t.is_handed_out() ? kMostColumns : 0) {}
};

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
