// What the lists of the kernels of normalization in two phases and the kernels themselves agree on:
// shapes and memory.
#pragma once

#include "cuda/choose.h"

namespace cudml::cuda {

inline constexpr int kTwoPhaseThreads = 256;

/// Into how many parts the statistics of a group are cut, each a block's: a function of its size
/// alone. One thread adds up the parts.
int64_t statistics_parts(const StatisticsPlan& plan);

/// The positions that share their statistics, with their number's strides in front: dimensions in
/// which neither mean nor variance changes are left out.
struct NormalizeCells {
  int rank = 0;
  int64_t count = 1;
  int64_t size[kMaxRank], mean[kMaxRank], variance[kMaxRank];
  int64_t stride[kMaxRank] = {};  // of all the plan's dimensions, in cells

  explicit NormalizeCells(const NormalizePlan& plan);
};

/// Whether so many positions share their statistics that these are prepared once.
bool are_cells_shared(const NormalizePlan& plan, const NormalizeCells& cells);

}  // namespace cudml::cuda
