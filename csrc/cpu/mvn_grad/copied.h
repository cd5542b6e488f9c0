// The gradient of normalization where grad or dx stand in another order than x: by the paths of
// tensors that stand alike, on copies that do.
#pragma once

#include "cpu/isa/paths.h"
#include "ops/mvn_grad.h"

namespace cudml::cpu::CUDML_ISA {

/// Whether the elements of a group are packed in x and not in grad or dx, or near each other there
/// and not in x, and another path than the plain one takes copies that are dense in x's order. Of
/// the group alone, not of what is beside it.
bool fits_copied_grad(const MvnGradPlan& plan);

void run_copied_grad(const MvnGradPlan& plan, const Arrays& arrays);

}  // namespace cudml::cpu::CUDML_ISA
