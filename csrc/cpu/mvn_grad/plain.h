// The gradient of normalization for cells that stand anyhow.
#pragma once

#include "core/operands.h"
#include "ops/mvn_grad.h"

namespace cudml::cpu::CUDML_ISA {

/// T is float, double, Float16 or BFloat16.
template <class T>
void mvn_grad_plain(const MvnGradPlan& plan, const Operands& operands);

}  // namespace cudml::cpu::CUDML_ISA
