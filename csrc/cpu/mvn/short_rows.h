// Normalization of very short rows: each lane of a vector has a row.
#pragma once

#include "core/operands.h"
#include "ops/mvn.h"

namespace cudml::cpu::CUDML_ISA {

/// Whether the plan's groups are such rows.
bool are_rows_short(const MvnPlan& plan);

/// T is float, Float16 or BFloat16.
template <class T>
void mvn_short(const MvnPlan& plan, const Operands& operands);

}  // namespace cudml::cpu::CUDML_ISA
