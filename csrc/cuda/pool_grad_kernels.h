// The kernels of the pooling gradients by number, in the order of their lists, and what those of
// rows read.
#pragma once

#include "cuda/choose.h"
#include "cuda/pool_kernels.h"
#include "cuda/row_tiles.h"

namespace cudml::cuda {

enum class AveragePoolGradKernel {
  pairs,
  vector_strips,
  strips,
  lanes,
  row,
  place,
  generic,
  count
};
enum class MaxPoolGradKernel { pairs, vector_strips, strips, lanes, row, place, generic, count };
enum class LpPoolGradKernel { row, generic, count };

inline constexpr uint32_t kPoolGradThreads = kTileThreads;
inline constexpr uint32_t kPoolGradBlocks =
    4;  // of a multiprocessor: 64 registers a thread, none spilled
inline constexpr int kGradVectorBytes = 16;

/// Elements of the result in the two batch dimensions and the spatial ones; 0 without outputs.
int64_t pool_grad_elements(const PoolGradPlan& plan);

/// A spatial axis with dense windows.
struct GradAxis : PoolAxisOf<int32_t> {
  int32_t full_first = 0, full_last = 0;  // outputs whose windows count all of their taps
  FastDiv by_in, by_stride;
};

using GradStrides = PoolStridesOf<int32_t>;

/// The result as rows along its last axis. A unit is a vector of neighbouring columns (`row`), one
/// column of a vector of neighbouring planes (`lanes`), or one element (`place`).
struct GradRows {
  RowTiles tiles;
  GradAxis axis[3];
  GradStrides grad, winners, result;
  FastDiv by_units, by_lanes, by_planes;  // lanes in a row; planes outside of rows
  bool include_padding = false;
  int32_t full_rows = 1;  // taps of a whole window, but for the last axis
  float inverse = 1;      // one over all its taps
};

/// Describes the plan to a kernel that takes `columns` elements of a row, or of `planes` planes, at
/// a time; `phase` is how many elements off alignment a row can begin.
GradRows rows_of(const PoolGradPlan& plan, int64_t columns, int64_t planes, int64_t phase);

/// Windows of 2x2 side by side. A unit is all windows over a vector of columns of two rows.
struct GradPairs {
  uint32_t units = 0;
  GradAxis axis[3];
  GradStrides x, grad, result;
  FastDiv by_columns, by_cells, by_planes;
  bool include_padding = false;
  int32_t columns = 1;  // a unit's
  float inverse = 1;    // one over the taps of a whole window
};

GradPairs pairs_of(const PoolGradPlan& plan);

/// Windows of 3x3. A unit is some steps down a strip of the result: of a column for averages, for
/// maxima of the two columns that belong to a window, or of a vector. A step is the rows that a row
/// of windows completes.
struct GradStrips {
  uint32_t units = 0;
  GradAxis axis[3];
  GradStrides x, grad, result;
  FastDiv by_lanes, by_strips, by_planes;
  bool include_padding = false;
  int32_t steps = 1;  // of a unit
  int32_t end = 0;    // behind the last row of windows that completes a row
};

/// How many units a warp takes at a time: the last or first window of a warp's is another's too.
inline constexpr int kStripLanes = 31;

GradStrips strips_of(const PoolGradPlan& plan, bool has_vectors);

/// The result's neighbours in memory are in neighbouring planes.
bool has_lanes(const PoolGradPlan& plan);

/// What a row needs, found once for all of its columns; 32-bit offsets from the tensors'
/// beginnings.
struct GradRow {
  int32_t result, grad, winners;     // of the row, of the first window that covers it
  int32_t slice, slices, row, rows;  // windows that cover it, along the first two axes
  int32_t own;                       // number in its plane of the row's first element
  int32_t is_full;                   // these windows count all of their taps on those axes
};

/// The same as of forward pooling, of all tensors of the gradient.
PoolGradPlan in_slices(const PoolGradPlan& plan);

/// How winners are found: a launch of the first kernel of forward pooling that can, which no
/// CUDML_KERNEL forces.
PoolPlan winners_plan(const PoolGradPlan& plan);
Choice winners_choice(const PoolPlan& winners, const Situation& situation);

/// Where the workspace of that launch begins, behind the winners.
constexpr int64_t winners_bytes(const PoolGradPlan& plan) {
  return (plan.workspace_bytes + 255) / 256 * 256;
}

}  // namespace cudml::cuda
