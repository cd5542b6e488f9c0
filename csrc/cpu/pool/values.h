// Pooling without indices by the path that is told, for the operations that have it.
#pragma once

#include "cpu/pool/parts.h"
#include "cpu/pool/plain.h"
#include "cpu/pool/planes.h"
#include "cpu/pool/side_by_side.h"
#include "cpu/pool/strips.h"
#include "cpu/pool/taps.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

template <class Op, class Finish>
StripShape strips_of(const PoolPlan& plan) {
  using T = typename Op::Element;
  return value_shape<typename Op::V>(plan, Sink<T>::kPiece, StripPool<Op, Finish>::kLaneThirds);
}

template <class Op, class Finish>
bool has_path(const PoolPlan& plan, ValuePath path) {
  switch (path) {
    case ValuePath::taps:
      if constexpr (ValuePool<Op, Finish>::kIsLarge) return TapPool<Op, Finish>::suits(plan);
      return false;
    case ValuePath::strips: return strips_of<Op, Finish>(plan).fits();
    case ValuePath::planes: return PlanePool<Op, Finish>::suits(plan);
    case ValuePath::side_by_side: return fits_lanes(plan);
    default: return true;
  }
}

template <class Op, class Finish>
void pool_values(const PoolPlan& plan, ValuePath path, Op op, Finish finish, const void* x,
                 void* y) {
  using T = typename Op::Element;
  const T* const first = static_cast<const T*>(x);
  const ValuePool<Op, Finish> base{
      plan, op, finish, first, static_cast<T*>(y), end_of_x(plan, first)};
  switch (path) {
    case ValuePath::taps:
      if constexpr (ValuePool<Op, Finish>::kIsLarge) pool_taps(base);
      return;
    case ValuePath::strips:
      finish.prepare(plan);
      return pool_strips(base, strips_of<Op, Finish>(plan));
    case ValuePath::planes: return pool_planes(base);
    case ValuePath::side_by_side: return run_windows(LanePool<Op, Finish>(base), plan);
    default: return run_windows(WindowPool<Op, Finish>(base), plan);
  }
}

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
