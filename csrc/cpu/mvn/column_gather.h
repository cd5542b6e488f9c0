// Rows of columns that stand apart in memory, copied to where their neighbours follow them.
#pragma once

#include <memory>

#include "cpu/mvn/column_blocks.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

/// Elements from a column to the next one, and from a row.
struct ColumnSteps {
  int64_t column, row;
};

/// Copies n columns of each of `rows` rows.
template <class T>
[[gnu::noinline]] void move_columns(const T* x, ColumnSteps from, int64_t rows, int64_t n, T* to,
                                    ColumnSteps at) {
  for (int64_t r = 0; r < rows; ++r, x += from.row, to += at.row) {
    if (from.column == 1 && at.column == 1)
      std::copy_n(x, n, to);
    else
      for (int64_t c = 0; c < n; ++c) to[c * at.column] = x[c * from.column];
  }
}

/// One thread's room for rows that are read or written elsewhere.
template <class T>
struct ColumnRoom {
  std::unique_ptr<T[]> x, y;

  ColumnRoom(int64_t elements_x, int64_t elements_y)
      : x(elements_x ? new T[size_t(elements_x)]() : nullptr),
        y(elements_y ? new T[size_t(elements_y)]() : nullptr) {}
};

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
