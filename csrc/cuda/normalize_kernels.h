// What the list of the kernels of normalization with given statistics and the kernels agree on:
// order, shapes, memory.
#pragma once

#include "cuda/mvn_kernels.h"

namespace cudml::cuda {

/// In the order of the list.
enum class NormalizeKernel : int { runs, columns, split, generic, count };

inline constexpr int kRunThreads = 256;
/// Accesses of a thread of the kernel of runs.
inline constexpr int kRunSlots = 4;
/// Of a cell there, statistics with scale and bias.
inline constexpr int64_t kRunCellBytes = 32;

/// The positions that share what is given, with their number's strides in front: dimensions in
/// which none of it changes are left out.
struct NormalizeCells {
  enum Given { kMean, kVariance, kScale, kBias, kTensors };

  int rank = 0;
  int64_t count = 1;
  StridedAxis<kTensors> axis[kMaxRank];
  int64_t stride[kMaxRank] = {};  // of all the plan's dimensions, in cells

  /// Those that share statistics, and scale and bias where `with_parameters`.
  explicit NormalizeCells(const NormalizePlan& plan, bool with_parameters = false);
};

/// Whether so many positions share their statistics that these are prepared once.
bool are_cells_shared(const NormalizePlan& plan, const NormalizeCells& cells);

/// The groups of elements that share statistics, as normalization sees them: group g is cell g.
MvnPlan normalize_groups(const NormalizePlan& plan);

/// Sheets in which x and y are packed alike, and which consist of runs: elements side by side that
/// share all that is given.
struct NormalizeSheets {
  int64_t run = 0;    // elements of a run; 0 where there are none
  int64_t size = 0;   // of a sheet
  int64_t count = 1;  // sheets
  int64_t parts = 1;  // blocks of a sheet, wherever it begins
  int apart = 0;      // dimensions in front that tell sheets apart

  explicit NormalizeSheets(const NormalizePlan& plan);
};

}  // namespace cudml::cuda
