// The kernels of the gradient of padding by number, in the order of their list.
#pragma once

#include "cuda/choose.h"

namespace cudml::cuda {

enum class PadGradKernel { generic, count };

inline constexpr uint32_t kPadGradThreads = 256;

}  // namespace cudml::cuda
