// Statistics of groups whose elements stand apart, as normalization finds them.
#pragma once

#include "core/operands.h"
#include "ops/statistics.h"

namespace cudml::cpu::CUDML_ISA {

/// Whether elements of a group, or short pieces of it, stand apart in memory.
bool are_statistics_tiled(const StatisticsPlan& plan);

/// T is float, Float16 or BFloat16.
template <class T>
void statistics_tiles(const StatisticsPlan& plan, const Operands& operands);

}  // namespace cudml::cpu::CUDML_ISA
