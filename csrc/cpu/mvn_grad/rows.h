// The gradient of normalization for cells that are packed rows, as those of layer normalization.
#pragma once

#include "core/operands.h"
#include "ops/mvn_grad.h"

namespace cudml::cpu::CUDML_ISA {

/// Whether cells are packed rows with a scale, if there is one, for each position: of the cell
/// alone, not of what is kept beside it.
bool are_grad_rows_packed(const MvnGradPlan& plan);

/// Whether rows have 16 to 16384 elements.
bool are_grad_rows_moderate(const MvnGradPlan& plan);

/// T is float, double, Float16 or BFloat16.
template <class T>
void mvn_grad_rows(const MvnGradPlan& plan, const Operands& operands);

}  // namespace cudml::cpu::CUDML_ISA
