// The merge of statistics, element by element.
#pragma once

#include "core/operands.h"
#include "ops/merge.h"

namespace cudml::cpu::CUDML_ISA {

/// T is float or double.
template <class T>
void merge_plain(const MergePlan& plan, const Operands& operands);

}  // namespace cudml::cpu::CUDML_ISA
