// What the list of the kernels of statistics and their launcher agree on.
#pragma once

#include "cuda/mvn_kernels.h"

namespace cudml::cuda {

/// In the order of the list. Each is a kernel of normalization that writes no result.
enum class StatisticsKernel : int { rows, columns, split, generic, count };

/// The groups of a plan as normalization sees them, their statistics kept.
MvnPlan statistics_groups(const StatisticsPlan& plan);

/// The kernel of normalization that runs.
MvnKernel normalization_of(StatisticsKernel kernel, const MvnPlan& groups);

}  // namespace cudml::cuda
