// The gradient of normalization for cells that are packed rows, as those of layer normalization.
#pragma once

#include "core/operands.h"
#include "ops/mvn_grad.h"

namespace cudml::cpu::CUDML_ISA {

/// Whether cells are packed rows with scale and bias for each position or for all of it: of the
/// cell alone, not of what is kept beside it.
bool are_grad_rows_packed(const MvnGradPlan& plan);

/// Whether rows are neither so short that they are better side by side, nor too long for the
/// caches.
bool are_grad_rows_moderate(const MvnGradPlan& plan);

/// T is float, double, Float16 or BFloat16.
template <class T>
void mvn_grad_rows(const MvnGradPlan& plan, const Operands& operands);

}  // namespace cudml::cpu::CUDML_ISA
