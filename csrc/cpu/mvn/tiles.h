// Normalization of columns that are packed in memory, by explicit vectors.
#pragma once

#include "ops/mvn.h"

namespace cudml::cpu::CUDML_ISA {

/// Whether neighbours in memory belong to several groups, in rows that this processor's vectors
/// suit.
bool are_columns_packed(const MvnPlan& plan);

/// T is float, Float16 or BFloat16.
template <class T>
void mvn_tiles(const MvnPlan& plan, const void* x, const void* scale, const void* bias, void* y);

}  // namespace cudml::cpu::CUDML_ISA
