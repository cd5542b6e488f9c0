// Short planes, one after the other in memory, that are put side by side for the paths of such
// planes, and their gradients back: a few planes at a time, which stay in the caches.
#pragma once

#include "cpu/pool/turned.h"
#include "ops/pool_grad.h"

namespace cudml::cpu::CUDML_ISA {

/// The planes of a plan that are put side by side.
struct TurnedShape {
  static constexpr int64_t kFewest = 8;

  int64_t x, y;  // elements of a plane of x, and of the windows
  TurnedLanes lanes;

  explicit TurnedShape(const PoolGradPlan& plan);

  /// Whether there are 8 planes or more, packed in all tensors, and so short that a line of memory
  /// of them is put side by side. Norms are elements of the same type.
  static bool fits(const PoolGradPlan& plan);
  /// Whether there is room for 32 of them, too: beside fewer planes finding the windows over an
  /// element of averages or norms takes longer than joining them.
  static bool fits_many(const PoolGradPlan& plan) {
    return fits(plan) && TurnedShape(plan).lanes.room >= tuning::turn::kFewest;
  }
  /// The plan of planes side by side.
  PoolGradPlan inner(const PoolGradPlan& plan) const;
};

/// `paths` are those that planes side by side have.
void run_turned(Paths<PoolGradPlan> paths, const PoolGradPlan& plan, const Arrays& a);

}  // namespace cudml::cpu::CUDML_ISA
