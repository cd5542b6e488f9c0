// Normalization of rows that are packed in memory, by explicit vectors.
#pragma once

#include "ops/mvn.h"

namespace cudml::cpu::CUDML_ISA {

/// Whether the plan's groups are made of packed stretches that this processor's vectors suit.
bool are_rows_packed(const MvnPlan& plan);

/// T is float, Float16 or BFloat16.
template <class T>
void mvn_rows(const MvnPlan& plan, const void* x, const void* scale, const void* bias, void* y);

}  // namespace cudml::cpu::CUDML_ISA
