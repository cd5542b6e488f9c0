// dx of a slice of a plane in one pass.
#pragma once

#include "cpu/mvn/formulas.h"
#include "cpu/mvn_grad/joined.h"
#include "cpu/mvn_grad/plane_sums.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

/// Writes what result(i) is of each vector of n elements, at least a vector of them. Some elements
/// are written twice, with the same bits; results that are not streamed may take the place of what
/// they are computed from.
template <class T, class Result>
[[gnu::always_inline]] inline void put_plane(T* dx, int64_t n, bool is_streamed, LinesAhead ahead,
                                             const Result& result) {
  constexpr int64_t kStep = kLanes<Acc<T>>, kLeastStreamed = 8192 / sizeof(T);
  is_streamed &= n >= kLeastStreamed;
  const bool converts = converts_pairs();
  const Vector<Acc<T>> last = result(n - kStep);
  const int64_t head = is_streamed ? to_line(dx) : 0;
  int64_t i = 0;
  for (; i < head; i += kStep) store_narrow(dx + i, result(i), Whole{});
  i = head;
  if (is_streamed)
    for (; i + 2 * kStep <= n; i += 2 * kStep)
      put_pair(dx + i, result(i), result(i + kStep), true, false, converts);
  else
    for (; i + 2 * kStep <= n; i += 2 * kStep) {
      ahead.fetch<true>(dx + i);
      ahead.fetch<true>(dx + i + kStep);
      put_pair(dx + i, result(i), result(i + kStep), false, false, converts);
    }
  if (i + kStep <= n) {
    store_narrow(dx + i, result(i), Whole{});
    i += kStep;
  }
  if (i < n) store_narrow(dx + n - kStep, last, Whole{});
}

/// kHasProduct: dx takes z * mean_wz off.
template <bool kHasProduct, class T, class Pass>
[[gnu::always_inline]] inline void write_plane(const PlaneSlice<T>& s, bool is_streamed,
                                               const JoinedDx<Acc<T>>& formula,
                                               const Pass& passing) {
  using V = Vector<Acc<T>>;
  const Pass pass = passing;  // in registers
  const T *const x = s.x, *const grad = s.grad;
  const V pivot = V{} + formula.pivot, factor = V{} + formula.factor, slope = V{} + formula.slope,
          shift = V{} + formula.shift;
  put_plane(s.dx, s.n, is_streamed, s.dx_ahead, [&](int64_t i) __attribute__((always_inline)) {
    const V g = load_wide(grad + i, Whole{});
    if constexpr (std::is_same_v<Pass, Through> && !kHasProduct) {
      return fused(g, factor, shift);
    } else {
      const V d = load_wide(x + i, Whole{}) - pivot;
      return fused(pass(g, d), factor, kHasProduct ? fused(d, slope, shift) : shift);
    }
  });
}

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
