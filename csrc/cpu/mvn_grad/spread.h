// The gradient of normalization for packed groups of short pieces, as channels of a few positions
// are: by the paths of packed rows, with scale and bias repeated for each element.
#pragma once

#include "cpu/isa/paths.h"
#include "ops/mvn_grad.h"

namespace cudml::cpu::CUDML_ISA {

/// Whether a cell is one packed row of short pieces that have a scale and a bias each, and rows are
/// taken with these for each position.
bool are_grad_pieces_spread(const MvnGradPlan& plan);

/// `paths` are those of packed rows.
void run_grad_spread(Paths<MvnGradPlan> paths, const MvnGradPlan& plan, const Arrays& arrays);

}  // namespace cudml::cpu::CUDML_ISA
