// What the vector paths of Lp pooling's gradient share: exponents known to the compiler, and rows.
#pragma once

#include "cpu/pool_grad/lp_gather.h"
#include "cpu/simd/lanes.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

/// An exponent that the compiler knows; 0 is any other one, which is looked up.
template <uint32_t kP>
struct LpExponent {
  uint32_t given;

  uint32_t value() const { return kP ? kP : given; }
};

/// Calls fn with the plan's exponent.
template <class Fn>
void with_exponent(const PoolGradPlan& plan, const Fn& fn) {
  const uint32_t p = plan.forward.p;
  if (p == 1) return fn(LpExponent<1>{p});
  if (p == 2) return fn(LpExponent<2>{p});
  if (p == 3) return fn(LpExponent<3>{p});
  fn(LpExponent<0>{p});
}

/// What elements of x, all of one window, get from it: a vector at a time, of which the last may
/// overlap the one before.
template <class T, class Exponent>
inline void share_window(const T* x, Acc<T> norm, Acc<T> grad, Exponent p, T* result, int64_t n) {
  using V = Acc<T>;
  constexpr int64_t kStep = kLanes<V>;
  const auto norms = all_lanes(norm), grads = all_lanes(grad);
  const auto put = [&](int64_t i) {
    store_floats(result + i,
                 Vector<V>{} + lp_share<Vector<V>>(load_floats(x + i), norms, grads, p.value()));
  };
  for (int64_t i = 0; i + kStep <= n; i += kStep) put(i);
  if (n >= kStep && n % kStep != 0) return put(n - kStep);
  for (int64_t i = n / kStep * kStep; i < n; ++i)
    result[i] = store_as<T>(V{0} + lp_share<V>(load_as_acc(x[i]), norm, grad, p.value()));
}

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
