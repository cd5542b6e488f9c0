// The kernels of max unpooling, and what they keep between their two launches.
#pragma once

#include "cuda/choose.h"

namespace cudml::cuda {

inline constexpr uint32_t kUnpoolThreads = 256;

/// Whether source positions need 64 bits. One more than each is kept; 0 is none.
inline bool are_claims_wide(const UnpoolPlan& plan) { return plan.sources() >= 0xffffffff; }

/// How a loop over `n` source positions or elements of the result is launched.
Geometry unpool_geometry(int64_t n);

}  // namespace cudml::cuda
