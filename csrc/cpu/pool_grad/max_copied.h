// Planes in another order in memory than their positions, packed for the gradients along rows, and
// these brought back.
#pragma once

#include "cpu/isa/paths.h"

namespace cudml::cpu::CUDML_ISA {

/// Whether another path than the last takes packed copies of planes that are not packed.
bool fits_copied_max(const PoolGradPlan& plan);

void run_copied_max(const PoolGradPlan& plan, const Arrays& a);

}  // namespace cudml::cpu::CUDML_ISA
