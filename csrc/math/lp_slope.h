// The slope of an Lp norm with respect to one of its taps; of numbers, and of vectors of them.
#pragma once

#include <cstdint>
#include <type_traits>

#include "core/hd.h"

namespace cudml {

/// ratio^n for n >= 1 and ratios of at most 1, by repeated squaring; window 1 stays exact.
template <class V>
HD V ratio_power(const V& ratio, uint32_t n) {
  V square = ratio;
  if (n == 1) return square;
  if (n == 2) return square * square;
  V power = V{} + 1;
  for (;; square = square * square) {
    if (n & 1) power = power * square;
    if (n >>= 1; n == 0) return power;
  }
}

/// A product that is rounded before it is added to anything: all kernels have the same bits.
template <class V>
HD V rounded_product(const V& a, const V& b) {
#if defined(__CUDA_ARCH__)
  if constexpr (std::is_same_v<V, float>)
    return __fmul_rn(a, b);
  else
    return __dmul_rn(a, b);
#else
  return a * b;
#endif
}

/// What a window hands to its tap x: grad * sign(x) * min(|x| / norm, 1)^(p - 1). The limit keeps
/// NaN (D-GRAD-5); a norm of 0 hands out nothing, unless p is 1, which reads no norm (D-GRAD-6).
template <class V>
HD V lp_share(const V& x, const V& norm, const V& grad, uint32_t p) {
  const V zero = V{}, one = zero + 1;
  const V sign = x > zero ? one : x < zero ? zero - one : x;
  const V signed_grad = grad * sign;
  if (p == 1) return signed_grad;
  const V quotient = (x < zero ? zero - x : x) / norm;
  const V share =
      rounded_product<V>(signed_grad, ratio_power<V>(quotient > one ? one : quotient, p - 1));
  return norm == zero ? zero : share;
}

}  // namespace cudml
