// Normalization with given statistics of packed rows: each has one mean and one variance.
#pragma once

#include "core/operands.h"
#include "ops/normalize.h"

namespace cudml::cpu::CUDML_ISA {

/// Whether there are packed rows that are not short and share their statistics.
bool are_statistics_of_rows(const NormalizePlan& plan);

/// T is float, Float16 or BFloat16.
template <class T>
void normalize_rows(const NormalizePlan& plan, const Operands& operands);

}  // namespace cudml::cpu::CUDML_ISA
