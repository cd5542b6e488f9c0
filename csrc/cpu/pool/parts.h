// The parts of CPU pooling, one file each: pool() chooses among them.
#pragma once

#include "ops/pool.h"

namespace cudml::cpu::CUDML_ISA {

void max_values(const PoolPlan& plan, const void* x, void* y);
void average_values(const PoolPlan& plan, const void* x, void* y);
void lp_values(const PoolPlan& plan, const void* x, void* y);
/// Maxima and their indices; y may be null where only the indices are wanted.
void max_winners(const PoolPlan& plan, const void* x, void* y, void* indices);

}  // namespace cudml::cpu::CUDML_ISA
