// The formula of normalization over a row, from vectors in registers to the rounded result.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

#include "cpu/mvn_activation.h"
#include "cpu/mvn_swish.h"

#if defined(CUDML_MVN_VECTORS)

namespace cudml::cpu::CUDML_ISA {
namespace {

// kAtOnce: how many vectors a chain of operations as long as that of x * sigmoid(a * x) takes
// together. Rows with a scale for each position may be so short that few are better.

/// y = ((x - pivot) * factor + shift) * scale + bias, all but x the same along the row.
struct UniformFormula {
  Floats pivot, factor, shift, scale, bias;

  template <class Lanes>
  Floats operator()(Floats x, int64_t, Lanes) const {
    return fused(fused(x - pivot, factor, shift), scale, bias);
  }
};

/// The same in fewer steps.
struct JoinedFormula {
  static constexpr int kAtOnce = 4;
  Floats pivot, factor, bias;

  explicit JoinedFormula(const UniformFormula& f)
      : pivot(f.pivot), factor(f.factor * f.scale), bias(fused(f.shift, f.scale, f.bias)) {}
  template <class Lanes>
  Floats operator()(Floats x, int64_t, Lanes) const {
    return fused(x - pivot, factor, bias);
  }

  /// Whether nothing was lost where exponents end.
  bool is_sound(const UniformFormula& f) const {
    const float size = std::abs(factor[0]);
    constexpr float kLeast = std::numeric_limits<float>::min(),
                    kMost = std::numeric_limits<float>::max();
    return (size >= kLeast || f.scale[0] == 0) && size <= kMost && std::abs(bias[0]) <= kMost;
  }
};

/// The same with a scale for each position.
struct ScaledFormula {
  static constexpr int kAtOnce = 2;
  Floats pivot, factor, shift;
  const float* scale;

  template <class Lanes>
  Floats operator()(Floats x, int64_t i, Lanes m) const {
    return fused(x - pivot, factor, shift) * load_wide(scale + i, m);
  }
};

/// The same with a scale and a bias for each position.
struct AffineFormula {
  static constexpr int kAtOnce = 2;
  Floats pivot, factor, shift;
  const float *scale, *bias;

  template <class Lanes>
  Floats operator()(Floats x, int64_t i, Lanes m) const {
    return fused(fused(x - pivot, factor, shift), load_wide(scale + i, m), load_wide(bias + i, m));
  }
};

/// Columns of many groups that share scale and bias in each row; rows are padded to whole vectors.
struct CrossFormula {
  static constexpr int kAtOnce = 4;
  const float *pivot, *factor, *shift;
  Floats scale, bias;

  template <class Lanes>
  Floats operator()(Floats x, int64_t i, Lanes) const {
    const Whole all;
    const Floats d = x - load_wide(pivot + i, all);
    return fused(fused(d, load_wide(factor + i, all), load_wide(shift + i, all)), scale, bias);
  }
};

/// ReLU, or nothing.
struct Floor {
  float low;

  explicit Floor(const Activation& f)
      : low(f.kind == ActivationKind::relu ? 0 : -std::numeric_limits<float>::infinity()) {}
  Floats operator()(Floats x) const { return at_least(x, low); }
};

/// Where results go, and what is read ahead meanwhile.
template <class T>
struct Flow {
  bool is_streamed = false;  // past the caches
  const T* ahead = nullptr;  // as long as the row, or null
};

/// Elements from y to where whole vectors may be streamed.
template <class T>
inline int64_t to_aligned(const T* y) {
  constexpr auto kBytes = uintptr_t(kFloats) * sizeof(T);
  return int64_t((-reinterpret_cast<uintptr_t>(y) & (kBytes - 1)) / sizeof(T));
}

inline void put(auto* y, Floats v, Partial m, bool, bool are_numbers = false) {
  store_narrow(y, v, m, are_numbers);
}
inline void put(auto* y, Floats v, Whole m, bool is_streamed, bool are_numbers = false) {
  if (is_streamed)
    stream_narrow(y, v, are_numbers);
  else
    store_narrow(y, v, m, are_numbers);
}

/// Puts f's results in the place of x. Returns whether they are known to be numbers.
template <class F, int kCount>
[[gnu::always_inline]] inline bool activate_vectors(const F& f, Floats (&x)[kCount]) {
  if constexpr (std::is_same_v<F, Swish>) {
    return f(x);
  } else {
    for (Floats& v : x) v = f(v);
    return false;
  }
}

/// y[i] = f(formula(x[i])) for i in kCount vectors from `first` on.
template <int kCount, class T, class Formula, class F, class Lanes>
[[gnu::always_inline]] inline void apply_vectors(T* y, const T* x, int64_t first,
                                                 const Formula& formula, const F& f, Lanes m,
                                                 bool is_streamed) {
  Floats v[kCount];
#pragma GCC unroll 4
  for (int k = 0; k < kCount; ++k) {
    const int64_t i = first + k * kFloats;
    v[k] = formula(load_wide(x + i, m), i, m);
  }
  const bool are_numbers = activate_vectors(f, v);
#pragma GCC unroll 4
  for (int k = 0; k < kCount; ++k) put(y + first + k * kFloats, v[k], m, is_streamed, are_numbers);
}

/// Whole vectors from i on, kCount at once. Returns the end of the last one.
template <int kCount, class T, class Formula, class F, class Streamed>
[[gnu::always_inline]] inline int64_t apply_whole(T* y, const T* x, int64_t i, int64_t n,
                                                  const Formula& formula, const F& f,
                                                  const T* ahead, Streamed is_streamed) {
  for (; i + kCount * kFloats <= n; i += kCount * kFloats) {
    if (is_streamed && ahead)
      for (int k = 0; k < kCount; ++k) __builtin_prefetch(ahead + i + k * kFloats);
    apply_vectors<kCount>(y, x, i, formula, f, Whole{}, is_streamed);
  }
  if constexpr (kCount == 1)
    return i;
  else
    return apply_whole<1>(y, x, i, n, formula, f, ahead, is_streamed);
}

/// y[i] = f(formula(x[i])) for i in [0, n), rounded once. y may be x.
template <class T, class Formula, class F>
inline void apply_formula(T* y, const T* x, int64_t n, const Formula formula, const F f,
                          Flow<T> flow) {
  int64_t i = 0, next = 0;  // the elements in between are no whole vector
  if (flow.is_streamed) next = std::min(n, to_aligned(y));
  while (i < n) {
    if (i < next) apply_vectors<1>(y, x, i, formula, f, Partial{next - i}, false);
    i = next;
    if constexpr (std::is_same_v<F, Swish>)
      i = apply_whole<Formula::kAtOnce>(y, x, i, n, formula, f, flow.ahead, flow.is_streamed);
    else if (flow.is_streamed)
      i = apply_whole<1>(y, x, i, n, formula, f, flow.ahead, std::true_type{});
    else
      i = apply_whole<1>(y, x, i, n, formula, f, flow.ahead, std::false_type{});
    next = n;
  }
}

/// The same for any activation, through memory.
template <class T, class Formula>
[[gnu::noinline]] void apply_any(const Activation& f, T* y, const T* x, int64_t n,
                                 const Formula formula, Flow<T> flow) {
  constexpr int64_t kMost = 256;
  alignas(64) float row[kMost];
  for (int64_t first = 0, count; first < n; first += count) {
    const int64_t head = flow.is_streamed ? to_aligned(y + first) : 0;
    count = std::min(head ? head : kMost, n - first);
    for (int64_t i = 0; i < count; i += kFloats)
      with_lanes(count - i, [&](auto m) {
        store_vector(row + i, formula(load_wide(x + first + i, m), first + i, m));
      });
    activate_row(f, row, (count + kFloats - 1) / kFloats * kFloats);
    for (int64_t i = 0; i < count; i += kFloats)
      with_lanes(count - i, [&](auto m) {
        put(y + first + i, load_vector<Floats>(row + i), m, flow.is_streamed);
      });
  }
}

/// The same for x * sigmoid(a * x). Not inlined, so that the way to the commonest activations is
/// short: rows may be so as well.
template <class T, class Formula>
[[gnu::noinline]] void apply_swish(const Activation& f, T* y, const T* x, int64_t n,
                                   const Formula& formula, Flow<T> flow) {
  if constexpr (std::is_same_v<Formula, UniformFormula>) {
    const JoinedFormula joined(formula);
    if (joined.is_sound(formula)) return apply_formula(y, x, n, joined, Swish(f), flow);
    apply_any(f, y, x, n, formula, flow);
  } else {
    apply_formula(y, x, n, formula, Swish(f), flow);
  }
}

template <class T, class Formula>
void apply_activated(const Activation& f, T* y, const T* x, int64_t n, const Formula& formula,
                     Flow<T> flow) {
  if (f.kind == ActivationKind::swish)
    apply_swish(f, y, x, n, formula, flow);
  else if (f.kind == ActivationKind::relu || f.kind == ActivationKind::identity)
    apply_formula(y, x, n, formula, Floor(f), flow);
  else
    apply_any(f, y, x, n, formula, flow);
}

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA

#endif
