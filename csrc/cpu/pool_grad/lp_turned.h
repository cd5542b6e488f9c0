// The gradient of norms over short planes, put side by side: rows of fewer elements than vectors
// have lanes take longer one by one.
#pragma once

#include "cpu/pool_grad/turned.h"

namespace cudml::cpu::CUDML_ISA {

inline bool fits_lp_turned(const PoolGradPlan& plan, const Machine&) {
  return TurnedShape::fits_many(plan);
}

}  // namespace cudml::cpu::CUDML_ISA
