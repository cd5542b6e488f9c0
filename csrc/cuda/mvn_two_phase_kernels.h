// What the lists of the kernels of normalization in two phases and the kernels themselves agree on.
#pragma once

#include "cuda/choose.h"

namespace cudml::cuda {

/// Of the kernels that work element by element, or group by group.
inline constexpr int kTwoPhaseThreads = 256;
inline constexpr int64_t kMostTwoPhaseBlocks = int64_t{1} << 16;

}  // namespace cudml::cuda
