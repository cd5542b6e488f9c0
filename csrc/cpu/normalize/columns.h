// Normalization with given statistics of columns: each position of a packed row has its own.
#pragma once

#include "core/operands.h"
#include "ops/normalize.h"

namespace cudml::cpu::CUDML_ISA {

/// Whether statistics differ along packed rows that are not short, or that follow each other.
bool are_statistics_along(const NormalizePlan& plan);

/// T is float, double, Float16 or BFloat16.
template <class T>
void normalize_columns(const NormalizePlan& plan, const Operands& operands);

}  // namespace cudml::cpu::CUDML_ISA
