// The kernels of the gradient of padding by number, in the order of their list, and what that of
// rows reads.
#pragma once

#include "core/fast_div.h"
#include "cuda/choose.h"
#include "cuda/row_tiles.h"

namespace cudml::cuda {

enum class PadGradKernel { rows, pieces, generic, count };

inline constexpr uint32_t kPadGradThreads = kTileThreads;

/// A dimension around the rows.
struct PadGradOuter {
  FastDiv in;
  PadGradAxis axis;
};

/// Where a row of the result begins, and the rows of the incoming gradient that add up to it.
struct PadGradRow {
  static constexpr int kKept = 4;  // beyond, rows are found again from the row's number

  int64_t y, from[kKept];
  uint32_t number;
  int32_t count;
};

/// A plan as rows of its last axis. A unit is 16 bytes of the result, aligned there.
struct PadGradRows {
  RowTiles tiles;
  FastDiv by_units;
  int outer_rank = 0;
  PadGradOuter outer[kMaxRank - 1];
  PadGradAxisOf<int32_t> axis;
};

PadGradRows rows_of(const PadGradPlan& plan);

}  // namespace cudml::cuda
