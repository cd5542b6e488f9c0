// Normalization of groups whose elements stand apart, many columns at once, by explicit vectors.
#pragma once

#include "core/operands.h"
#include "ops/mvn.h"

namespace cudml::cpu::CUDML_ISA {

/// Whether elements of a group, or short pieces of it, stand apart in memory.
bool are_columns_tiled(const MvnPlan& plan);

/// T is float, Float16 or BFloat16.
template <class T>
void mvn_tiles(const MvnPlan& plan, const Operands& operands);

}  // namespace cudml::cpu::CUDML_ISA
