// What all ways to pool without indices have: the plan, the operation, the arrays.
#pragma once

#include "cpu/pool/finish.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

template <class Op, class Finish>
struct ValuePool {
  using T = typename Op::Element;
  using V = typename Op::V;
  using Total = typename Op::Total;
  /// What has loops of its own for the usual windows: the usual types, whose vectors are finished
  /// one by one.
  static constexpr bool kIsUsual =
      (sizeof(T) <= 2 || std::is_same_v<T, float>) && !std::is_same_v<Finish, LpFinish<T>>;
  /// What has more of them: not what is kept small, for processors that are hardly met.
#if defined(__x86_64__) && !defined(__AVX__)
  static constexpr bool kIsLarge = false;
#else
  static constexpr bool kIsLarge = kIsUsual;
#endif
  const PoolPlan& plan;
  Op op;
  const Finish& finish;
  const T* x;
  T* y;
  const T* end;  // of x

  V again(const Box& box, int64_t at) const { return scaled_norm<V>(plan, box, x + at); }
  /// Writes one output of a window.
  void put(int64_t at, Total total, const Box& box, int64_t plane) const {
    const V v = box.taps == 0 ? Op::none() : finish.one(total, counted(plan, box), [&](int64_t) {
      return again(box, plane);
    });
    store_part(op, y + at, all_lanes(v), 1);
  }
};

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
