// The gradient of normalization for short packed groups: each lane of a vector has one.
#pragma once

#include "core/operands.h"
#include "ops/mvn_grad.h"

namespace cudml::cpu::CUDML_ISA {

/// Whether a cell is a short packed row, or one element, with scale and bias for each position or
/// for all of it: of the cell alone, not of how many there are.
bool are_grad_rows_short(const MvnGradPlan& plan);

/// Of floats of at most 32 bits.
template <class T>
void mvn_grad_turned(const MvnGradPlan& plan, const Operands& operands);

}  // namespace cudml::cpu::CUDML_ISA
