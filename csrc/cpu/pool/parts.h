// The parts of pooling without indices, which pool/paths.cpp chooses among.
#pragma once

#include "ops/pool.h"

namespace cudml::cpu::CUDML_ISA {

enum class ValuePath { taps, strips, planes, side_by_side, plain };

/// Whether a plan of maxima, averages or power sums has this path.
bool max_has(const PoolPlan& plan, ValuePath path);
bool average_has(const PoolPlan& plan, ValuePath path);
bool lp_has(const PoolPlan& plan, ValuePath path);

void max_values(const PoolPlan& plan, ValuePath path, const void* x, void* y);
void average_values(const PoolPlan& plan, ValuePath path, const void* x, void* y);
void lp_values(const PoolPlan& plan, ValuePath path, const void* x, void* y);

}  // namespace cudml::cpu::CUDML_ISA
