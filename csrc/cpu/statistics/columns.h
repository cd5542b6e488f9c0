// Statistics of doubles in columns: neighbours in memory belong to other groups.
#pragma once

#include "core/operands.h"
#include "ops/statistics.h"

namespace cudml::cpu::CUDML_ISA {

/// Whether the elements of a group stand so far apart that rows of many groups are read instead.
bool are_statistics_apart(const StatisticsPlan& plan);

void statistics_columns(const StatisticsPlan& plan, const Operands& operands);

}  // namespace cudml::cpu::CUDML_ISA
