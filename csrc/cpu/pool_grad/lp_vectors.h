// What the vector paths of Lp pooling's gradient share.
#pragma once

#include "cpu/pool_grad/lp_gather.h"
#include "cpu/simd/lanes.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

/// What elements of x, all of one window, get from it: a vector at a time, of which the last may
/// overlap the one before.
template <class T>
inline void share_window(const T* x, Acc<T> norm, Acc<T> grad, uint32_t p, T* result, int64_t n) {
  using V = Acc<T>;
  constexpr int64_t kStep = kLanes<V>;
  const auto norms = all_lanes(norm), grads = all_lanes(grad);
  const auto put = [&](int64_t i) {
    store_floats(result + i,
                 Vector<V>{} + lp_share<Vector<V>>(load_floats(x + i), norms, grads, p));
  };
  for (int64_t i = 0; i + kStep <= n; i += kStep) put(i);
  if (n >= kStep && n % kStep != 0) return put(n - kStep);
  for (int64_t i = n / kStep * kStep; i < n; ++i)
    result[i] = store_as<T>(V{0} + lp_share<V>(load_as_acc(x[i]), norm, grad, p));
}

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
