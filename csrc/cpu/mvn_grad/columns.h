// The gradient of normalization for cells whose elements stand apart in memory, as channels do that
// are stored last: read in the order of memory, a row of columns at a time.
#pragma once

#include "core/operands.h"
#include "ops/mvn_grad.h"

namespace cudml::cpu::CUDML_ISA {

/// Whether a cell's elements, or short packed pieces of them, stand apart from each other and share
/// scale and bias from piece to piece, or longer pieces share what varies along them: of the cell
/// alone, not of what is kept beside it.
bool are_grad_columns_apart(const MvnGradPlan& plan);

/// T is float, double, Float16 or BFloat16.
template <class T>
void mvn_grad_columns(const MvnGradPlan& plan, const Operands& operands);

}  // namespace cudml::cpu::CUDML_ISA
