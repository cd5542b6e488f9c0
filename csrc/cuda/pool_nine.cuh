// Windows of 3x3 that lie inside a plane: nine taps at fixed places, all on their way together, and
// nothing counted. What other windows of such a plan see is found as in any other.
#pragma once

#include "cuda/pool_one.cuh"

namespace cudml::cuda {

/// Whether all windows of a plan that lie inside their plane are these. Asked for once a thread.
__device__ __forceinline__ bool has_nines(const PoolShape<int32_t>& s) {
  return s.axis[0].window == 1 && s.axis[1].window == 3 && s.axis[2].window == 3;
}

__device__ __forceinline__ bool is_nine_inside(const PoolAxisOf<int32_t>& a, int32_t begin,
                                               int32_t taps) {
  return begin >= 0 && begin < a.in - (taps - 1) * a.dilation;
}

/// The value of a sum of taps or of their powers, in visiting order. Returns false where the window
/// is another.
template <Pooled kWhat, class T>
__device__ __forceinline__ bool pool_nine(const PoolShape<int32_t>& s,
                                          const PoolPlaceOf<int32_t>& place, const T* x, T* y) {
  using V = Acc<T>;
  int32_t at = place.plane(s.x);
  bool is_inside = true;
#pragma unroll
  for (int i = 0; i < 3; ++i) {
    const int32_t begin = place.space[i] * s.axis[i].stride - s.axis[i].start;
    is_inside &= is_nine_inside(s.axis[i], begin, i == 0 ? 1 : 3);
    at += begin * s.x.space[i];
  }
  if (!is_inside) return false;
  T taps[3][3];
#pragma unroll
  for (int b = 0; b < 3; ++b)
#pragma unroll
    for (int c = 0; c < 3; ++c) taps[b][c] = x[at + b * s.x_step[1] + c * s.x_step[2]];
  V sum = 0;
#pragma unroll
  for (int b = 0; b < 3; ++b)
#pragma unroll
    for (int c = 0; c < 3; ++c) {
      const V v = load_as_acc(taps[b][c]);
      sum += kWhat == Pooled::lp ? lp_term(v, 2) : v;
    }
  if constexpr (kWhat == Pooled::average)
    sum = average_of(sum, V(9));
  else
    sum = finish_lp<V>(sum, 2, [&] { return scaled_norm<T>(window_at(s, place), x, 2); });
  y[place.offset(s.y)] = store_as<T>(sum);
  return true;
}

}  // namespace cudml::cuda
