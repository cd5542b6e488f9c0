// The gradient of normalization for groups side by side whose elements stand apart and have scales
// or biases of their own, as the channels of a pixel do that are stored first, or are few.
#pragma once

#include "core/operands.h"
#include "ops/mvn_grad.h"

namespace cudml::cpu::CUDML_ISA {

/// Whether a cell's elements stand apart from each other and are few: of the cell alone, not of
/// what is kept beside it.
bool are_grad_cells_short(const MvnGradPlan& plan);

/// Of floats of at most 32 bits.
void mvn_grad_side_by_side(const MvnGradPlan& plan, const Operands& operands);

}  // namespace cudml::cpu::CUDML_ISA
