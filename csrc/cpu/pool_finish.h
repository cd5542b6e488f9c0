// From what a window's taps join to, to the output element.
#pragma once

#include "cpu/pool_reduce.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

/// Taps that count for the divisor of an average, along the axes of the box.
inline double counted(const PoolPlan& p, const Box& box) {
  return p.include_padding ? box.inside : double(box.taps);
}

// A finish turns joined values into outputs: row() for n neighbours whose windows have the same
// divisor, not 0, one() for a single window. `again(i)` gives the value of output i from its taps,
// scaled.

struct MaxFinish {
  template <class V, class Again>
  void row(V*, int64_t, double, const Again&) const {}
  template <class V, class Again>
  V one(V joined, double, const Again&) const {
    return joined;
  }
};

template <class T>
struct AverageFinish {
  template <class Again>
  void row(Acc<T>* out, int64_t n, double divisor, const Again&) const {
    const Acc<T> d = Acc<T>(divisor);
    for (int64_t i = 0; i < n; ++i) out[i] /= d;
  }
  template <class S, class Again>
  Acc<T> one(S joined, double divisor, const Again&) const {
    return Acc<T>(average_of(joined, S(divisor)));
  }
};

template <class T>
struct LpFinish {
  uint32_t p = 2;

  template <class Again>
  void row(Acc<T>* out, int64_t n, double, const Again& again) const {
    if (p == 1) return;
    bool safe = true;
    for (int64_t i = 0; i < n; ++i) safe &= lp_sum_is_safe<Acc<T>>(out[i]);
    if (safe && p == 2) {
      for (int64_t i = 0; i < n; ++i) out[i] = std::sqrt(out[i]);
      return;
    }
    for (int64_t i = 0; i < n; ++i) out[i] = one(out[i], 1, [&](int64_t) { return again(i); });
  }
  template <class S, class Again>
  Acc<T> one(S sum, double, const Again& again) const {
    if (p == 1 || is_nan(sum)) return Acc<T>(sum);
    return lp_sum_is_safe<Acc<T>>(sum) ? Acc<T>(lp_root(sum, p)) : again(0);
  }
};

template <class T, class Each>
void each_tap(const Box& box, const T* x, const Each& each) {
  for (int64_t a = 0; a < box.count[0]; ++a)
    for (int64_t b = 0; b < box.count[1]; ++b)
      for (int64_t c = 0; c < box.count[2]; ++c) each(double(load_as_acc(x[box.x_at(a, b, c)])));
}

/// The Lp norm of one window in the scaled form; x is the first element of its plane. Other kinds
/// of pooling never ask for it.
template <class V, class T>
V scaled_norm(const PoolPlan& p, const Box& box, const T* x) {
  if constexpr (!std::is_same_v<V, Acc<T>> || !kIsFloat<T>) {
    return V{};
  } else {
    LpScaled norm{p.p};
    each_tap(box, x, [&](double v) { norm.see(v); });
    if (norm.prepare()) each_tap(box, x, [&](double v) { norm.add(v); });
    return V(norm.result());
  }
}

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
