// Short planes, one after the other in memory, that are put side by side for the path of such
// planes, and their winners back: a few planes at a time, which stay in the caches.
#pragma once

#include "cpu/isa/paths.h"
#include "cpu/pool/turned.h"
#include "ops/pool.h"

namespace cudml::cpu::CUDML_ISA {

/// The planes of a plan with indices that are put side by side.
struct TurnedWinners {
  int64_t x, y;  // elements of a plane of x, and windows of it
  TurnedLanes lanes;

  explicit TurnedWinners(const PoolPlan& plan);

  /// Whether there are 32 planes or more, packed in all tensors, and so short that so many of them
  /// have room, side by side, for more than one window each.
  static bool fits(const PoolPlan& plan);
  /// The plan of planes side by side, whose indices count from the first of them.
  PoolPlan inner(const PoolPlan& plan) const;
};

void run_turned_winners(const PoolPlan& plan, const Arrays& a);

}  // namespace cudml::cpu::CUDML_ISA
