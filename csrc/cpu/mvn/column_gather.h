// Rows of columns that stand apart in memory, copied to where their neighbours follow them.
#pragma once

#include <memory>

#include "cpu/memory/tuning.h"
#include "cpu/mvn/column_blocks.h"
#include "cpu/mvn/column_states.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

/// Elements from a column of a group to the next one, from a group and from a row.
struct ColumnSteps {
  int64_t column, group, row;
};

/// Copies `fold` columns of each group of each row, in the order of what is further apart: x or
/// `to` may have rows that are nearer to each other than groups are.
template <class T>
[[gnu::noinline]] void move_columns(const T* x, ColumnSteps from, int64_t rows, int64_t groups,
                                    int64_t fold, T* to, ColumnSteps at) {
  if (fold == 1 && from.group <= from.row && at.group <= at.row) {
    fold = groups, groups = 1;
    from.column = from.group, at.column = at.group;
  }
  for (int64_t g = 0; g < groups; ++g)
    for (int64_t r = 0; r < rows; ++r) {
      const T* const a = x + r * from.row + g * from.group;
      T* const b = to + r * at.row + g * at.group;
      if (fold == 1)
        *b = *a;
      else if (from.column == 1 && at.column == 1)
        std::copy_n(a, fold, b);
      else
        for (int64_t c = 0; c < fold; ++c) b[c * at.column] = a[c * from.column];
    }
}

/// Adds `rows` rows of n columns that follow each other, one after the other to each sum.
template <class T>
[[gnu::noinline]] void add_chain(const T* x, int64_t rows, int64_t n, BlockScratch& scratch) {
  for (int64_t c = 0; c < n; c += kFloats)
    with_lanes(n - c, [&](auto m) {
      const Floats k = load_wide(scratch.guess + c, Whole{});
      Floats s = load_wide(scratch.sum + c, Whole{}), q = load_wide(scratch.square + c, Whole{});
      for (int64_t r = 0; r < rows; ++r) {
        const Floats d = select(m, load_wide(x + r * n + c, m), k) - k;
        s += d;
        q = fused(d, d, q);
      }
      store_narrow(scratch.sum + c, s, Whole{});
      store_narrow(scratch.square + c, q, Whole{});
    });
}

/// One thread's room for rows that are read or written elsewhere.
template <class T>
struct ColumnRoom {
  std::unique_ptr<T[]> x, y;

  ColumnRoom(int64_t elements_x, int64_t elements_y)
      : x(elements_x ? new T[size_t(elements_x)]() : nullptr),
        y(elements_y ? new T[size_t(elements_y)]() : nullptr) {}
};

/// Rows of a plan's blocks: where they stand or as copies, with the same sums.
template <class T>
struct ColumnRows {
  const Blocks& blocks;
  const GroupColumns& layout = blocks.layout;
  const bool is_gathered;  // rows are copied before they are summed

  explicit ColumnRows(const Blocks& of)
      : blocks(of),
        is_gathered(!of.layout.are_packed(&MvnAxis::x) ||
                    (!of.is_packed && of.repeat > 1 && of.width < kFewestInPlace)) {}

  /// The columns of a row that stands at x, or of `repeat` of the plan's rows, side by side: there,
  /// or in place `slot` of `room`.
  const T* at(const Blocks::Block& b, const T* x, int64_t repeat, T* room, int64_t slot = 0) const {
    if (!is_gathered) return x;
    T* const to = room + slot * b.width * blocks.repeat;
    gather(b, x, repeat, to);
    return to;
  }

  void gather(const Blocks::Block& b, const T* x, int64_t rows, T* to) const {
    move_columns(x, {layout.inner.x, layout.groups.x, blocks.step}, rows, blocks.groups_of(b),
                 layout.fold(), to, {1, layout.fold(), b.width});
  }

  void hand_out(const Blocks::Block& b, const T* from, int64_t rows, T* y) const {
    move_columns(from, {1, layout.fold(), b.width}, rows, blocks.groups_of(b), layout.fold(), y,
                 {layout.inner.y, layout.groups.y, blocks.y_step()});
  }

  /// Adds rows, each of so many of the plan's: at once where they are side by side.
  template <int kRows>
  void add(const Blocks::Block& b, const T* const* x, int64_t repeat, BlockScratch& s,
           RowsAhead ahead = {}) const {
    if (blocks.is_packed || is_gathered || repeat == 1)
      return add_rows<kRows>(x, b.width * repeat, s.guess, s.sum, s.square, ahead);
    for (int64_t k = 0; k < repeat; ++k) {
      const int64_t at = k * b.width;
      const T* row[kRows];
      for (int r = 0; r < kRows; ++r) row[r] = x[r] + k * blocks.step;
      add_rows<kRows>(row, b.width, s.guess + at, s.sum + at, s.square + at);
    }
  }

  /// The sums of sum_run() over so many of the plan's rows, as if kRunColumns stood together.
  void add_as_run(const Blocks::Block& b, const T* x, int64_t rows, BlockScratch& s,
                  T* room) const {
    const int64_t joint = kRunColumns / blocks.step, n = joint * b.width,
                  most = std::min(kRoom / n, kChain);
    for (int64_t chain = 0, count; rows >= joint; rows -= count * joint) {
      count = std::min({most, rows / joint, kChain - chain});
      if (chain == 0) clear(n, s);
      gather(b, x, count * joint, room);
      add_chain(room, count, n, s);
      x += count * joint * blocks.step;
      chain += count;
      if (chain < kChain && rows - count * joint >= joint) continue;
      s.widen(n);
      chain = 0;
    }
    if (rows == 0) return;
    clear(n, s);
    gather(b, x, rows, room);
    const T* const rest = room;
    add_rows<1>(&rest, rows * b.width, s.guess, s.sum, s.square);
    s.widen(n);
  }

  static constexpr int64_t kRoom = 16 / int64_t(sizeof(T)) * kMostColumns;  // elements

 private:
  static constexpr int64_t kFewestInPlace = tuning::mvn::kFewestInPlace;
  static constexpr int64_t kChain = kRunLength / kRunColumns;

  static void clear(int64_t n, BlockScratch& s) {
    n = (n + kFloats - 1) / kFloats * kFloats;
    std::fill_n(s.sum, n, 0.0f);
    std::fill_n(s.square, n, 0.0f);
  }
};

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
