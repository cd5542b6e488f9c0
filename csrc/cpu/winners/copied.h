// Planes in another order in memory than their positions, packed for the paths along rows, and
// their winners brought back.
#pragma once

#include "cpu/isa/paths.h"

namespace cudml::cpu::CUDML_ISA {

/// Whether another path than the plain one takes packed copies of planes that are not packed.
bool fits_copied_winners(const PoolPlan& plan);

void run_copied_winners(const PoolPlan& plan, const Arrays& a);

}  // namespace cudml::cpu::CUDML_ISA
