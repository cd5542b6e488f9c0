// Normalization of groups that stand anyhow.
#pragma once

#include "core/operands.h"
#include "ops/mvn.h"

namespace cudml::cpu::CUDML_ISA {

/// T is float, double, Float16 or BFloat16.
template <class T>
void mvn_plain(const MvnPlan& plan, const Operands& operands);

}  // namespace cudml::cpu::CUDML_ISA
