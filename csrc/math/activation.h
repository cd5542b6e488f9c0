// Activations that a normalization may fuse: the table of their names and parameters, and formulas.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

#include "core/hd.h"
#include "math/elementary.h"
#include "math/fused.h"

namespace cudml {

// kind, DirectML's name, two parameters with their defaults ("" = none), whether parameters must be
// given, whether DirectML fuses it into a normalization, first feature level
#define CUDML_ACTIVATIONS(ENTRY)                                                                   \
  ENTRY(identity, "ACTIVATION_IDENTITY", "", 0, "", 0, false, true, 0x1000)                        \
  ENTRY(linear, "ACTIVATION_LINEAR", "Alpha", 0, "Beta", 0, true, true, 0x1000)                    \
  ENTRY(relu, "ACTIVATION_RELU", "", 0, "", 0, false, true, 0x1000)                                \
  ENTRY(leaky_relu, "ACTIVATION_LEAKY_RELU", "Alpha", 0.01, "", 0, false, true, 0x1000)            \
  ENTRY(thresholded_relu, "ACTIVATION_THRESHOLDED_RELU", "Alpha", 1, "", 0, false, true, 0x1000)   \
  ENTRY(elu, "ACTIVATION_ELU", "Alpha", 1, "", 0, false, true, 0x1000)                             \
  ENTRY(celu, "ACTIVATION_CELU", "Alpha", 1, "", 0, false, true, 0x3000)                           \
  ENTRY(scaled_elu, "ACTIVATION_SCALED_ELU", "Alpha", 1.67326319217681884765625, "Gamma",          \
        1.05070102214813232421875, false, true, 0x1000)                                            \
  ENTRY(sigmoid, "ACTIVATION_SIGMOID", "", 0, "", 0, false, true, 0x1000)                          \
  ENTRY(hard_sigmoid, "ACTIVATION_HARD_SIGMOID", "Alpha", 0.2, "Beta", 0.5, false, true, 0x1000)   \
  ENTRY(tanh, "ACTIVATION_TANH", "", 0, "", 0, false, true, 0x1000)                                \
  ENTRY(scaled_tanh, "ACTIVATION_SCALED_TANH", "Alpha", 1, "Beta", 0.5, false, true, 0x1000)       \
  ENTRY(softplus, "ACTIVATION_SOFTPLUS", "Steepness", 1, "", 0, false, true, 0x1000)               \
  ENTRY(parametric_softplus, "ACTIVATION_PARAMETRIC_SOFTPLUS", "Alpha", 1, "Beta", 1, false, true, \
        0x1000)                                                                                    \
  ENTRY(softsign, "ACTIVATION_SOFTSIGN", "", 0, "", 0, false, true, 0x1000)                        \
  ENTRY(shrink, "ACTIVATION_SHRINK", "Bias", 0, "Threshold", 0.5, false, true, 0x2000)             \
  ENTRY(gelu, "ACTIVATION_GELU", "", 0, "", 0, false, true, 0x5100)                                \
  ENTRY(swish, "ACTIVATION_SWISH", "SigmoidInputScale", 1, "", 0, false, false, 0x6200)            \
  ENTRY(hard_swish, "ACTIVATION_HARD_SWISH", "Alpha", 1.0 / 6, "Beta", 0.5, false, false, 0x6200)

enum class ActivationKind : uint8_t {
#define ENTRY(kind, ...) kind,
  CUDML_ACTIVATIONS(ENTRY)
#undef ENTRY
      constant,  // b, whatever x is; only planning makes it, from parameters of 0
};

/// A kind and its parameters in DirectML's order.
struct Activation {
  ActivationKind kind = ActivationKind::identity;
  double a = 0, b = 0;
};

template <class T>
HD T clamp_to_unit(T x) {
  return x < 0 ? T(0) : x > 1 ? T(1) : x;  // NaN stays
}

template <class T>
HD T sigmoid(T x) {
  const T e = exp_of(-std::abs(x));
  return near_quotient(x < 0 ? e : T(1), 1 + e);
}

/// x / (1 + |x|), 1 or -1 at infinity.
template <class T>
HD T softsign(T x) {
  const T magnitude = std::abs(x);
  return magnitude > std::numeric_limits<T>::max() ? std::copysign(T(1), x) : x / (1 + magnitude);
}

/// ln(1 + e^z) less max(0, z).
template <class T>
HD T softplus_rest(T z) {
  return log1p_of(exp_of(-std::abs(z)));
}

/// gate * x where a gate of 0 shuts even an infinite x.
template <class T>
HD T gated(T gate, T x) {
  return gate == 0 ? T(0) : gate * x;
}

/// 0.5 * x * (1 + erf(x / sqrt 2)), in the form that keeps its digits for negative x.
template <class T>
HD T gelu(T x) {
  return gated(erfc_of(x), T(0.5) * x);
}

/// The activations made of straight pieces. NaN fails every comparison and reaches the last case.
template <ActivationKind kKind, class T>
HD T straight(T a, T b, T x) {
  using enum ActivationKind;
  if constexpr (kKind == linear) return fused(a, x, b);
  if constexpr (kKind == relu) return x < 0 ? T(0) : x;
  if constexpr (kKind == leaky_relu) return x < 0 ? a * x : x;
  if constexpr (kKind == thresholded_relu) return x <= a ? T(0) : x;
  if constexpr (kKind == hard_sigmoid) return clamp_to_unit(fused(a, x, b));
  if constexpr (kKind == hard_swish) return gated(clamp_to_unit(fused(a, x, b)), x);
  if constexpr (kKind == shrink) {
    if (x > b) return x - a;
    if (x < -b) return x + a;
    return x == x ? T(0) : x;
  }
  if constexpr (kKind == constant) return x == x ? b : x;
  return x;
}

template <ActivationKind kKind, class T>
HD T activate(T a, T b, T x) {
  using enum ActivationKind;
  if constexpr (kKind == elu)
    return x < 0 ? a * expm1_of(x) : x;
  else if constexpr (kKind == celu)
    return x < 0 ? a * expm1_of(x / a) : x;
  else if constexpr (kKind == scaled_elu)
    return b * (x > 0 ? x : a * expm1_of(x));
  else if constexpr (kKind == ActivationKind::sigmoid)
    return cudml::sigmoid(x);
  else if constexpr (kKind == ActivationKind::tanh)
    return tanh_of(x);
  else if constexpr (kKind == scaled_tanh)
    return a * tanh_of(b * x);
  else if constexpr (kKind == softplus)
    return (x > 0 ? x : T(0)) + softplus_rest(a * x) / a;
  else if constexpr (kKind == parametric_softplus)
    return a * ((b * x > 0 ? b * x : T(0)) + softplus_rest(b * x));
  else if constexpr (kKind == softsign)
    return std::abs(x) > std::numeric_limits<T>::max() ? std::copysign(T(1), x)
                                                       : x / (1 + std::abs(x));
  else if constexpr (kKind == ActivationKind::gelu)
    return cudml::gelu(x);
  else if constexpr (kKind == swish)
    return gated(cudml::sigmoid(a * x), x);
  else
    return straight<kKind>(a, b, x);
}

/// The activation of one value, in T.
template <class T>
HD T activate(const Activation& f, T x) {
  switch (f.kind) {
#define ENTRY(kind, ...) \
  case ActivationKind::kind: return activate<ActivationKind::kind>(T(f.a), T(f.b), x);
    CUDML_ACTIVATIONS(ENTRY)
    ENTRY(constant)
#undef ENTRY
  }
  return x;
}

}  // namespace cudml
