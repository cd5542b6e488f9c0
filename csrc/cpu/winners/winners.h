// The parts of max pooling with indices, which winners/paths.cpp chooses among.
#pragma once

#include "ops/pool.h"

namespace cudml::cpu::CUDML_ISA {

enum class WinnerPath { plain_pairs, pairs, lane_taps, strips, planes, side_by_side, plain };

/// Maxima and their indices; y may be null where only the indices are wanted.
void max_winners(const PoolPlan& plan, WinnerPath path, const void* x, void* y, void* indices);

}  // namespace cudml::cpu::CUDML_ISA
