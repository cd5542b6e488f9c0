// Slices of planes by rows that the cache holds: for any activation, and for numbers so large or
// small that factors must not be joined.
#pragma once

#include "cpu/mvn_grad/cell.h"
#include "cpu/mvn_grad/passed.h"
#include "cpu/mvn_grad/plane_sums.h"
#include "cpu/mvn_grad/totals.h"
#include "math/slope.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

/// One thread's rows.
template <class A>
struct PlaneBuffers {
  static constexpr int64_t kLength = kPlaneStretch<A> + 64 / int64_t(sizeof(A));
  alignas(64) A z[kLength], h[kLength], grad[kLength];
};

template <class T>
class PlaneRows {
 public:
  using A = Acc<T>;

  PlaneRows(const Activation& f, const PlaneSlice<T>& slice, const CellState<A>& state)
      : f_(f), slice_(slice), state_(state) {}

  /// h, and h * z, where x is read. `kept` receives all h, if it is not null.
  [[gnu::noinline]] void add_products(PlaneBuffers<A>& rows, SliceSums& result,
                                      A* kept = nullptr) const {
    const bool is_read = reads_input(f_.kind);
    result.h = is_read ? 0 : sum_of_gradient(slice_);
    result.hz = 0;
    for (int64_t i = 0; i < slice_.n; i += kPlaneStretch<A>) {
      const int64_t n = std::min(kPlaneStretch<A>, slice_.n - i);
      const A* const h = evaluate(i, n, rows, kept ? kept + i : rows.h);
      if (is_read) result.h += row_sum(h, n);
      result.hz += product_sum(h, rows.z, n);
    }
  }

  /// `has_product`: dx takes z * mean_wz off.
  [[gnu::noinline]] void write(PlaneBuffers<A>& rows, bool has_product) const {
    const A factor = state_.normal.factor, mean = state_.mean_w, slope = -state_.mean_wz,
            scale = static_cast<A>(slice_.scale);
    for (int64_t i = 0; i < slice_.n; i += kPlaneStretch<A>) {
      const int64_t n = std::min(kPlaneStretch<A>, slice_.n - i);
      const A* const h = evaluate(i, n, rows, rows.h);
      A* const z = rows.z;
      if (has_product)
#pragma GCC ivdep
        for (int64_t k = 0; k < n; ++k) z[k] = factor * fused(z[k], slope, h[k] * scale - mean);
      else
#pragma GCC ivdep
        for (int64_t k = 0; k < n; ++k) z[k] = factor * (h[k] * scale - mean);
      store_row<T>(slice_.dx + i, 1, z, n);
    }
  }

 private:
  /// z of a row, and where its h stands: in `h`, or where it is the gradient itself.
  const A* evaluate(int64_t first, int64_t n, PlaneBuffers<A>& rows, A* h) const {
    A* const z = rows.z;
    if (slice_.x) {
      const Normalizer<A> normal = state_.normal;
      load_row<T>(z, slice_.x + first, 1, n);
#pragma GCC ivdep
      for (int64_t i = 0; i < n; ++i) z[i] = normal(z[i]);
    }
    const A* grad = rows.grad;
    if constexpr (std::is_same_v<T, A>)
      grad = slice_.grad + first;
    else
      load_row<T>(rows.grad, slice_.grad + first, 1, n);
    if (!reads_input(f_.kind)) return grad;
    const A scale = static_cast<A>(slice_.scale), bias = static_cast<A>(slice_.bias);
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) h[i] = fused(scale, z[i], bias);
    pass_row(f_, h, grad, h, n);
    return h;
  }

  const Activation& f_;
  const PlaneSlice<T>& slice_;
  const CellState<A>& state_;
};

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
