// The gradient of normalization for cells of packed planes that have one scale and one bias each,
// as the channels of a group, of an instance or of a batch do: from a pass over them, or two.
#pragma once

#include "core/operands.h"
#include "ops/mvn_grad.h"

namespace cudml::cpu::CUDML_ISA {

/// Whether a cell consists of packed pieces of at least 16 elements, each with one scale and bias.
bool has_grad_planes(const MvnGradPlan& plan);

/// The same of at most 256 pieces.
bool has_few_grad_planes(const MvnGradPlan& plan);

/// The same of pieces of at most 1024 elements in cells of at most 131072, which share their scale
/// and bias or follow each other along one dimension.
bool has_short_grad_planes(const MvnGradPlan& plan);

/// Whether the gradient takes its own sums and passes by vectors what is normalized by a mean and a
/// variance: no activation, one of two straight pieces, or SiLU.
bool passes_grad_quickly(const MvnGradPlan& plan);

/// T is float, double, Float16 or BFloat16.
template <class T>
void mvn_grad_planes(const MvnGradPlan& plan, const Operands& operands);

/// Of short ones, with what passes quickly. T is float, Float16 or BFloat16.
template <class T>
void mvn_grad_short_planes(const MvnGradPlan& plan, const Operands& operands);

}  // namespace cudml::cpu::CUDML_ISA
