// The slopes of the activations, and how a gradient passes through them.
#pragma once

#include "math/activation.h"

namespace cudml {

/// e / (1 + e)^2 with e = exp(-|z|): the slope of the sigmoid, which is even.
template <class T>
HD T sigmoid_slope(T z) {
  const T e = exp_of(-std::abs(z)), divisor = 1 + e;
  return near_quotient(e, divisor * divisor);
}

template <class T>
HD T tanh_slope(T z) {
  return 4 * sigmoid_slope(2 * z);
}

/// Phi(v) + v * phi(v), the normal distribution and its density.
template <class T>
HD T gelu_slope(T v) {
  const T density = exp_of(T(-0.5) * v * v) * T(0.39894228040143267794);
  return fused(T(0.5), erfc_of(v), gated(density, v));
}

template <class T>
HD T swish_slope(T a, T v) {
  const T z = gated(a, v);
  return sigmoid(z) + gated(sigmoid_slope(z), z);
}

/// f'(v) of a number; at a kink the slope that docs/semantics.md names. The smallest factor comes
/// first, so that two large parameters do not overflow where the slope is 0.
template <ActivationKind kKind, class T>
HD T slope(T a, T b, T v) {
  using enum ActivationKind;
  if constexpr (kKind == linear) return a;
  if constexpr (kKind == leaky_relu) return v > 0 ? T(1) : a;
  if constexpr (kKind == elu) return v > 0 ? T(1) : a * exp_of(v < 0 ? v : T(0));
  if constexpr (kKind == celu) return v > 0 ? T(1) : exp_of((v < 0 ? v : T(0)) / a);
  if constexpr (kKind == scaled_elu) return v > 0 ? b : b * (a * exp_of(v < 0 ? v : T(0)));
  if constexpr (kKind == ActivationKind::sigmoid) return sigmoid_slope(v);
  if constexpr (kKind == hard_sigmoid) return a;
  if constexpr (kKind == ActivationKind::tanh) return tanh_slope(v);
  if constexpr (kKind == scaled_tanh) return a * (b * tanh_slope(gated(b, v)));
  if constexpr (kKind == softplus) return cudml::sigmoid(a * v);
  if constexpr (kKind == parametric_softplus) return a * (b * cudml::sigmoid(gated(b, v)));
  if constexpr (kKind == ActivationKind::softsign)
    return 1 / ((1 + std::abs(v)) * (1 + std::abs(v)));
  if constexpr (kKind == ActivationKind::gelu) return gelu_slope(v);
  if constexpr (kKind == swish) return swish_slope(a, v);
  if constexpr (kKind == hard_swish) {
    const T line = gated(a, v);
    return line + b < 1 ? 2 * line + b : T(1);
  }
  return T(1);
}

/// Whether a comparison alone makes the slope 0: nothing passes then, be it infinite (D-GRAD-12).
template <ActivationKind kKind, class T>
HD bool blocks(T a, T b, T v) {
  using enum ActivationKind;
  if constexpr (kKind == relu) return v <= 0;
  if constexpr (kKind == thresholded_relu) return v <= a;
  if constexpr (kKind == hard_sigmoid) {
    const T line = gated(a, v) + b;
    return (line <= 0) | (line >= 1);
  }
  if constexpr (kKind == shrink) return (v <= b) & (v >= -b);
  if constexpr (kKind == hard_swish) return gated(a, v) + b <= 0;
  return false;
}

/// Whether the slope depends on v.
constexpr bool reads_input(ActivationKind kind) {
  return kind != ActivationKind::identity && kind != ActivationKind::linear;
}

/// grad * f'(v). Where v is NaN, so is the result (D-GRAD-13).
template <ActivationKind kKind, class T>
HD T passed(T a, T b, T grad, T v) {
  if constexpr (kKind == ActivationKind::identity) {
    return grad;
  } else if constexpr (!reads_input(kKind)) {
    return grad * a;
  } else {
    const T product = grad * (v == v ? slope<kKind>(a, b, v) : v);
    return ((v == v) & blocks<kKind>(a, b, v)) ? T(0) : product;
  }
}

/// The same with the activation told at run time.
template <class T>
HD T passed(const Activation& f, T grad, T v) {
  switch (f.kind) {
#define ENTRY(kind, ...) \
  case ActivationKind::kind: return passed<ActivationKind::kind>(T(f.a), T(f.b), grad, v);
    CUDML_ACTIVATIONS(ENTRY)
#undef ENTRY
    default: return grad;
  }
}

}  // namespace cudml
