// The kernels of padding by number, in the order of their list, and what those of rows read.
#pragma once

#include "core/fast_div.h"
#include "cuda/choose.h"
#include "cuda/row_tiles.h"

namespace cudml::cuda {

enum class PadKernel { wide, row, flat, strided, generic, count };

inline constexpr uint32_t kPadThreads = kTileThreads;
inline constexpr int kPadMap = 256;  // borders whose sources are looked up in shared memory

/// The largest element that a kernel moves, in bytes.
constexpr int pad_width(PadKernel kernel) {
  return kernel == PadKernel::wide ? 16 : kernel == PadKernel::generic ? 1 : 8;
}

/// The same copy in the largest elements that the kernel moves and that divide sizes, pads, strides
/// and addresses. `value` holds the constant again and again. Where x_first makes up for what the
/// arrays' addresses lack, that does not count: a launch is to have the rows that its kernel was
/// chosen for.
PadPlan widened(const PadPlan& plan, PadKernel kernel, int64_t alignment);

/// A dimension around the rows.
struct PadOuter {
  FastDiv out;
  Border mode;
  int64_t in, start, x_stride, y_stride;
};

/// Where a row begins, in elements; x is -1 where all of it is the constant.
struct PadRow {
  int64_t x, y;
};

/// A widened plan as rows. A row is the last dimension; where that has no pads and lies packed in
/// the one around it, both: positions of `run` elements. A unit is one element, or 16 bytes of y
/// aligned there.
struct PadRows {
  RowTiles tiles;
  int outer_rank = 0;
  PadOuter outer[kMaxRank - 1];
  Border mode = Border::constant;
  bool has_map = false;                // the row's borders are at most kPadMap elements
  int32_t in = 1, out = 1, start = 0;  // elements
  int32_t run = 1, runs_in = 1, runs_start = 0;
  int64_t x_stride = 0, y_stride = 0;
  uint32_t inner_first = 0, inner_last = 0;  // units that are copied from inside the row
  FastDiv by_run, by_units, by_inner, by_border;
};

/// For all kernels but the generic one.
PadRows rows_of(PadKernel kernel, const PadPlan& widened_plan);

/// Elements of the result.
int64_t pad_elements(const PadPlan& plan);

}  // namespace cudml::cuda
