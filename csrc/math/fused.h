// A product and a sum in one step: no compiler chooses between one rounding and two.
#pragma once

#include <cmath>

#include "core/hd.h"

namespace cudml {

// a * b + c, rounded once where the processor does that, else twice: the mathematical library's
// one rounding would take a hundred times as long there. `kFuses` says which.
#if defined(__CUDA_ARCH__) || defined(__FMA__) || defined(__ARM_FEATURE_FMA)
constexpr bool kFuses = true;
HD float fused(float a, float b, float c) { return ::fmaf(a, b, c); }
HD double fused(double a, double b, double c) { return ::fma(a, b, c); }
#else
constexpr bool kFuses = false;
HD float fused(float a, float b, float c) { return a * b + c; }
HD double fused(double a, double b, double c) { return a * b + c; }
#endif

}  // namespace cudml
