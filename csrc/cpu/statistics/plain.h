// Statistics of any groups.
#pragma once

#include "core/operands.h"
#include "ops/statistics.h"

namespace cudml::cpu::CUDML_ISA {

/// T is float, double, Float16 or BFloat16.
template <class T>
void statistics_plain(const StatisticsPlan& plan, const Operands& operands);

}  // namespace cudml::cpu::CUDML_ISA
