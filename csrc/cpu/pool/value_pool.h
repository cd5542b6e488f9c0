// What all ways to pool without indices have: the plan, the operation, the arrays.
#pragma once

#include "cpu/pool/finish.h"
#include "cpu/pool/parts.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

template <class Op, class Finish>
struct ValuePool {
  using T = typename Op::Element;
  using V = typename Op::V;
  using Total = typename Op::Total;
  static constexpr Loops kLoops = {Finish::kKind, int(sizeof(T)), std::is_floating_point_v<T>};
  /// What has most loops of its own: not what is kept small.
  static constexpr bool kIsLarge = kLoops.are_usual() && !kIsKeptSmall;
  const PoolPlan& plan;
  Op op;
  const Finish& finish;
  const T* x;
  T* y;
  const T* end;  // of x

  V again(const Box& box, int64_t at) const { return scaled_norm<V>(plan, box, x + at); }
  /// Writes one output of a window.
  template <class S>
  void put(int64_t at, S total, const Box& box, int64_t plane) const {
    const V v = box.taps == 0 ? Op::none() : finish.one(total, counted(plan, box), [&](int64_t) {
      return again(box, plane);
    });
    store_part(op, y + at, all_lanes(v), 1);
  }
};

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
