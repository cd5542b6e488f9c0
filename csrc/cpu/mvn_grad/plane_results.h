// dx of a slice of a plane in one pass.
#pragma once

#include "cpu/memory/tuning.h"
#include "cpu/mvn/formulas.h"
#include "cpu/mvn_grad/joined.h"
#include "cpu/mvn_grad/plane_sums.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

/// Writes the results of n elements, at least a vector of them: result(i, v) gives some vectors
/// from i on. Some elements are written twice, with the same bits; results that are not streamed
/// may take the place of what they are computed from.
template <class T, class Result>
[[gnu::always_inline]] inline void put_plane(T* dx, int64_t n, bool is_streamed, LinesAhead ahead,
                                             const Result& result) {
  using V = Vector<Acc<T>>;
  constexpr int64_t kStep = kLanes<Acc<T>>,
                    kLeastStreamed = tuning::mvn_grad::kStreamedBytes / sizeof(T);
  is_streamed &= n >= kLeastStreamed;
  const bool converts = converts_pairs();
  V last[1], one[1], two[2];
  result(n - kStep, last);
  const int64_t head = is_streamed ? to_line(dx) : 0;
  int64_t i = 0;
  for (; i < head; i += kStep) {
    result(i, one);
    store_narrow(dx + i, one[0], Whole{});
  }
  i = head;
  if (is_streamed)
    for (; i + 2 * kStep <= n; i += 2 * kStep) {
      result(i, two);
      put_pair(dx + i, two[0], two[1], true, false, converts);
    }
  else
    for (; i + 2 * kStep <= n; i += 2 * kStep) {
      ahead.fetch<true>(dx + i);
      ahead.fetch<true>(dx + i + kStep);
      result(i, two);
      put_pair(dx + i, two[0], two[1], false, false, converts);
    }
  if (i + kStep <= n) {
    result(i, one);
    store_narrow(dx + i, one[0], Whole{});
    i += kStep;
  }
  if (i < n) store_narrow(dx + n - kStep, last[0], Whole{});
}

/// `grad` is the gradient or what is kept of it; kHasProduct: dx takes z * mean_wz off.
template <bool kHasProduct, class T, class G, class Pass>
[[gnu::always_inline]] inline void write_plane(const PlaneSlice<T>& slice, const G* grad,
                                               bool is_streamed, const JoinedDx<Acc<T>>& formula,
                                               const Pass& passing) {
  using A = Acc<T>;
  using V = Vector<A>;
  const Pass pass = passing;  // in registers
  const T* const x = slice.x;
  const bool across = waits_for_lines<Pass>(x, grad);
  const V pivot = all_lanes<A>(formula.pivot), factor = all_lanes<A>(formula.factor),
          slope = all_lanes<A>(formula.slope), shift = all_lanes<A>(formula.shift);
  const auto result = [&]<int kCount>(int64_t i, V(&dx)[kCount]) __attribute__((always_inline)) {
    PlaneTerm<A> terms[kCount];
    constexpr bool kReadsX = kHasProduct || !std::is_same_v<Pass, Through>;
#pragma GCC unroll 2
    for (int k = 0; k < kCount; ++k) {
      const int64_t at = i + k * kLanes<A>;
      terms[k].h = load_across(grad + at, Whole{}, across);
      if constexpr (kReadsX) terms[k].d = load_across(x + at, Whole{}, across) - pivot;
    }
    if constexpr (kReadsX) pass_terms(pass, terms);
#pragma GCC unroll 2
    for (int k = 0; k < kCount; ++k)
      dx[k] = fused(terms[k].h, factor, kHasProduct ? fused(terms[k].d, slope, shift) : shift);
  };
  put_plane(slice.dx, slice.n, is_streamed, slice.dx_ahead, result);
}

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
