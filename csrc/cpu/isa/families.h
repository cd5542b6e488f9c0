// Entry points of the CPU families, one copy per instruction set; backend.cpp puts them in a table.
#pragma once

#include "ops/mvn.h"
#include "ops/pad.h"
#include "ops/pool.h"
#include "ops/pool_grad.h"

namespace cudml::cpu::CUDML_ISA {

void pool(const PoolPlan& plan, const void* x, void* y, void* indices);
void max_pool_grad(const PoolGradPlan& plan, const void* x, const void* grad, void* result,
                   void* workspace);
void average_pool_grad(const PoolGradPlan& plan, const void* grad, void* result);
void pad(const PadPlan& plan, const void* x, void* y);
void mvn(const MvnPlan& plan, const void* x, const void* scale, const void* bias, void* y);

}  // namespace cudml::cpu::CUDML_ISA
