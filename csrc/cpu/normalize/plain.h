// Normalization with any given statistics.
#pragma once

#include "core/operands.h"
#include "ops/normalize.h"

namespace cudml::cpu::CUDML_ISA {

/// T is float, double, Float16 or BFloat16.
template <class T>
void normalize_plain(const NormalizePlan& plan, const Operands& operands);

}  // namespace cudml::cpu::CUDML_ISA
