// Short planes, one after the other in memory, that are put side by side for the paths of such
// planes, and their results back: a few planes at a time, which stay in the caches.
#pragma once

#include "cpu/isa/paths.h"
#include "cpu/memory/tuning.h"
#include "cpu/memory/turn.h"
#include "ops/pool.h"

namespace cudml::cpu::CUDML_ISA {

/// How many planes are put side by side at once.
struct TurnedLanes {
  int64_t room = 0;   // planes that there is room for, whole lines of memory
  int64_t count = 0;  // those that are taken, whole vectors; 0 where there is no room for a line

  /// Of `planes`, for each of which all tensors have `elements` in all.
  TurnedLanes(Dtype dtype, int64_t elements, int64_t planes);
};

/// Elements of a plane of x, where `size` is of PoolAxis::in, or of the outputs.
int64_t plane_elements(const PoolPlan& plan, int64_t PoolAxis::* size);

/// Whether a tensor's planes are rows of rows of elements without gaps.
bool has_packed_planes(const PoolPlan& plan, const PoolStrides& strides, int64_t PoolAxis::* size);

/// The strides of `lanes` planes side by side.
PoolStrides strides_of_lanes(const PoolPlan& plan, int64_t lanes, int64_t PoolAxis::* size);

/// Whether there are 32 planes or more, packed in both tensors, and so short that so many of them
/// have room, side by side, for more than one output each.
bool fits_turned(const PoolPlan& plan);
void run_turned(const PoolPlan& plan, const Arrays& a);

}  // namespace cudml::cpu::CUDML_ISA
