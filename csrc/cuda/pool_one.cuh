// One thread computes one output: what the window kernel and the generic kernel share.
#pragma once

#include "cuda/pool_walk.cuh"
#include "math/reducer.h"

namespace cudml::cuda {

/// The taps that are in flight at a time. Kernels with wide offsets are rare, and short instead.
template <class Int>
inline constexpr int kUnroll = sizeof(Int) == 4 ? 4 : 1;

/// The norm of one window in the scaled form of D-LP-6. Rare, and too long to be inlined.
template <class T, class Int>
__device__ __noinline__ Acc<T> scaled_norm(const PoolWindow<Int>& w, const T* x, uint32_t p) {
  LpScaled norm{p};
  each_tap<1>(w, [&](Int at, Int) { norm.see(double(load_as_acc(x[at]))); });
  if (norm.prepare()) each_tap<1>(w, [&](Int at, Int) { norm.add(double(load_as_acc(x[at]))); });
  return Acc<T>(norm.result());
}

/// lp_term and lp_root for any p, which are too long to be inlined for each tap and output.
template <class V>
__device__ __noinline__ V any_term(V value, uint32_t p) {
  return lp_term(value, p);
}
template <class V>
__device__ __noinline__ V any_root(V sum, uint32_t p) {
  return lp_root(sum, p);
}

/// What one tap adds to a direct sum.
template <class V>
__device__ __forceinline__ V term_of(V value, uint32_t p) {
  return p == 2 ? lp_term(value, 2) : p == 1 ? lp_term(value, 1) : any_term(value, p);
}

/// The p-th root of a direct sum, from the taps again where the sum is not safe. V is the type of
/// its terms.
template <class V, class Sum, class Again>
__device__ __forceinline__ V finish_lp(Sum sum, uint32_t p, const Again& again) {
  if (p == 1 || is_nan(sum)) return V(sum);
  if (!lp_sum_is_safe<V>(sum)) return again();
  return V(p == 2 ? lp_root(sum, 2) : any_root(sum, p));
}

/// Sums are kept in Sum: windows of more than 4096 taps need double.
template <Pooled kWhat, class Sum, class T, class Int>
__device__ __forceinline__ T pooled_value(const PoolShape<Int>& s, const PoolWindow<Int>& w,
                                          const T* x) {
  using V = Acc<T>;
  if constexpr (kWhat == Pooled::max) {
    V best = max_of_none<T>();
    each_tap<kUnroll<Int>>(w, [&](Int at, Int) { best = max_of(best, load_as_acc(x[at])); });
    return store_as<T>(best);
  } else if constexpr (kWhat == Pooled::average) {
    Sum sum = 0;
    each_tap<kUnroll<Int>>(w, [&](Int at, Int) { sum += load_as_acc(x[at]); });
    return store_as<T>(V(average_of(sum, divisor_of<Sum>(w, s.include_padding))));
  } else {
    Sum sum = 0;
    each_tap<kUnroll<Int>>(w, [&](Int at, Int) { sum += term_of(load_as_acc(x[at]), s.p); });
    return store_as<T>(finish_lp<V>(sum, s.p, [&] { return scaled_norm<T>(w, x, s.p); }));
  }
}

/// Finds the first of the largest taps; y and indices may be null.
template <class T, class Int>
__device__ __forceinline__ void pool_winner(const PoolShape<Int>& s, const PoolPlaceOf<Int>& place,
                                            const PoolWindow<Int>& w, const T* x, T* y,
                                            void* indices) {
  Acc<T> best = max_of_none<T>();
  Int x_at = w.x, flat = w.flat;  // the first tap wins where all are the lowest value
  each_tap<kUnroll<Int>>(w, [&](Int at, Int index) {
    const Acc<T> v = load_as_acc(x[at]);
    if (!wins(best, v)) return;
    best = v;
    x_at = at;
    flat = index;
  });
  const bool none = w.is_empty();
  // Copied, since converting a NaN to and fro would change its bits.
  if (y) y[place.offset(s.y)] = none ? store_as<T>(max_of_none<T>()) : x[x_at];
  if (indices) store_index(s, indices, place.offset(s.indices), none ? Int(-1) : flat);
}

template <Pooled kWhat, class Sum, class T, class Int>
__device__ __forceinline__ void pool_one(const PoolShape<Int>& s, const PoolPlaceOf<Int>& place,
                                         const T* x, T* y, void* indices) {
  const PoolWindow<Int> w = window_at(s, place);
  if constexpr (kWhat == Pooled::winner)
    pool_winner(s, place, w, x, y, indices);
  else
    y[place.offset(s.y)] = pooled_value<kWhat, Sum>(s, w, x);
}

}  // namespace cudml::cuda
