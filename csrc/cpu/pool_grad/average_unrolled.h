// Paths of average pooling's gradient that are compiled with flags of their own.
#pragma once

#include "cpu/isa/paths.h"

namespace cudml::cpu::CUDML_ISA {

void average_thirds(const PoolGradPlan& plan, const Arrays& a);
void average_side_by_side(const PoolGradPlan& plan, const Arrays& a);
void average_blocks(const PoolGradPlan& plan, const Arrays& a);

}  // namespace cudml::cpu::CUDML_ISA
