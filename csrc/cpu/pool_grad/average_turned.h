// The gradient of averages over short planes, put side by side: rows of fewer elements than vectors
// have lanes take longer one by one.
#pragma once

#include "cpu/pool_grad/turned.h"

namespace cudml::cpu::CUDML_ISA {

/// Beside few planes finding the windows over an element takes longer than joining them.
inline bool fits_average_turned(const PoolGradPlan& plan) {
  return TurnedShape::fits(plan) && TurnedShape(plan).room >= tuning::pool_grad::kFewestTurned;
}

}  // namespace cudml::cpu::CUDML_ISA
