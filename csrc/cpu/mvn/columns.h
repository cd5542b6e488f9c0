// Normalization of doubles in columns: neighbours in memory belong to other groups.
#pragma once

#include "core/operands.h"
#include "ops/mvn.h"

namespace cudml::cpu::CUDML_ISA {

/// Whether rows of many groups' elements may be read, rather than one group after the other.
bool are_columns_apart(const MvnPlan& plan);

void mvn_columns(const MvnPlan& plan, const Operands& operands);

}  // namespace cudml::cpu::CUDML_ISA
