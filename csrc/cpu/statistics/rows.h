// Statistics of groups that are packed in memory, at least in pieces.
#pragma once

#include "core/operands.h"
#include "ops/statistics.h"

namespace cudml::cpu::CUDML_ISA {

/// Whether a group is a packed row, or pieces of one that are not short.
bool are_groups_packed(const StatisticsPlan& plan);

/// T is float, Float16 or BFloat16.
template <class T>
void statistics_rows(const StatisticsPlan& plan, const Operands& operands);

}  // namespace cudml::cpu::CUDML_ISA
