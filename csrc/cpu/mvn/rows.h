// Normalization of rows that are packed in memory, by explicit vectors.
#pragma once

#include "core/operands.h"
#include "cpu/memory/tuning.h"
#include "ops/mvn.h"

namespace cudml::cpu::CUDML_ISA {

/// Whether rows of elements of so many bytes are ones that a call may have to end in the middle of:
/// they are gone through in parts.
inline bool are_rows_huge(const MvnPlan& plan, size_t item) {
  return plan.group_size * int64_t(item) >= tuning::mvn::kHugeBytes;
}

/// Whether the plan's groups are made of packed stretches that this processor's vectors suit.
bool are_rows_packed(const MvnPlan& plan);

/// T is float, Float16 or BFloat16.
template <class T>
void mvn_rows(const MvnPlan& plan, const Operands& operands);

}  // namespace cudml::cpu::CUDML_ISA
