// The formula of normalization over a row, from vectors in registers to the rounded result.
#pragma once

#include "cpu/mvn_activation.h"
#include "cpu/mvn_vectors.h"
#include "math/activation.h"

#if defined(CUDML_MVN_VECTORS)

namespace cudml::cpu::CUDML_ISA {
namespace {

/// y = ((x - pivot) * factor + shift) * scale + bias, all but x the same along the row.
struct UniformFormula {
  Floats pivot, factor, shift, scale, bias;

  template <class Lanes>
  Floats operator()(Floats x, int64_t, Lanes) const {
    return ((x - pivot) * factor + shift) * scale + bias;
  }
};

/// The same with a scale for each position.
struct ScaledFormula {
  Floats pivot, factor, shift;
  const float* scale;

  template <class Lanes>
  Floats operator()(Floats x, int64_t i, Lanes m) const {
    return ((x - pivot) * factor + shift) * load_wide(scale + i, m);
  }
};

/// The same with a scale and a bias for each position.
struct AffineFormula {
  Floats pivot, factor, shift;
  const float *scale, *bias;

  template <class Lanes>
  Floats operator()(Floats x, int64_t i, Lanes m) const {
    return ((x - pivot) * factor + shift) * load_wide(scale + i, m) + load_wide(bias + i, m);
  }
};

/// Columns of many groups with a scale and a bias for each; rows are padded to whole vectors.
struct ColumnFormula {
  const float *pivot, *factor, *scale, *bias;

  template <class Lanes>
  Floats operator()(Floats x, int64_t i, Lanes) const {
    const Whole all;
    return (x - load_wide(pivot + i, all)) * load_wide(factor + i, all) *
               load_wide(scale + i, all) +
           load_wide(bias + i, all);
  }
};

/// Columns of many groups that share scale and bias in each row; rows are padded likewise.
struct CrossFormula {
  const float *pivot, *factor, *shift;
  Floats scale, bias;

  template <class Lanes>
  Floats operator()(Floats x, int64_t i, Lanes) const {
    const Whole all;
    return ((x - load_wide(pivot + i, all)) * load_wide(factor + i, all) +
            load_wide(shift + i, all)) *
               scale +
           bias;
  }
};

/// ReLU, or nothing.
struct Floor {
  float low;

  explicit Floor(const Activation& f)
      : low(f.kind == ActivationKind::relu ? 0 : -std::numeric_limits<float>::infinity()) {}
  Floats operator()(Floats x) const { return at_least(x, low); }
};

/// Through memory, vector by vector.
struct AnyActivation {
  const Activation& kind;

  explicit AnyActivation(const Activation& f) : kind(f) {}
  Floats operator()(Floats x) const {
    alignas(64) float row[kFloats];
    store_vector(row, x);
    activate_row(kind, row, kFloats);
    return load_vector<Floats>(row);
  }
};

/// x * sigmoid(a * x), in the form of math/activation.h.
struct Swish {
  Floats a;

  explicit Swish(const Activation& f) : a(broadcast(float(f.a))) {}

  Floats operator()(Floats x) const {
    const Floats z = a * x, one = broadcast(1), e = exponential(minus_magnitude(z));
    return gated_product(quotient(by_sign(z, e, one), one + e), x);
  }

  /// e^x for x <= 0: 2^n * e^r with |r| <= (ln 2) / 2, whose minimax polynomial is off by 4e-9.
  static Floats exponential(Floats x) {
    const Floats limited = at_least(x, -105.0f);
    constexpr float kShift = 12582912.0f;  // 1.5 * 2^23: leaves the nearest whole number
    const Floats shifted = limited * 1.44269504f + kShift, whole = shifted - kShift;
    const Floats r = (limited - whole * 0.693359375f) - whole * -2.12194440e-4f;
    Floats p = r * 1.3813851401e-3f + 8.3690788597e-3f;
    p = p * r + 4.1668422520e-2f;
    p = p * r + 1.6666518152e-1f;
    p = p * r + 4.9999994040e-1f;
    p = p * r + 1.0f;
    p = p * r + 1.0f;
#if defined(__AVX512F__)
    return _mm512_maskz_scalef_ps(0xffff, p, whole);
#else
    // In two steps, since 2^n may be subnormal.
    using Ints = Vector<int32_t>;
    const Ints n = std::bit_cast<Ints>(shifted) - std::bit_cast<int32_t>(kShift), half = n >> 1;
    return p * std::bit_cast<Floats>((half + 127) << 23) *
           std::bit_cast<Floats>((n - half + 127) << 23);
#endif
  }
};

/// Where results go, and what is read ahead meanwhile.
template <class T>
struct Flow {
  bool is_streamed = false;  // past the caches
  const T* ahead = nullptr;  // as long as the row, or null
};

/// y[i] = f(formula(x[i])) for i in [0, n), rounded once. y may be x.
template <class T, class Formula, class F>
inline void apply_formula(T* y, const T* x, int64_t n, const Formula& formula, const F& f,
                          Flow<T> flow) {
  const auto result = [&](int64_t i, auto m) { return f(formula(load_wide(x + i, m), i, m)); };
  constexpr auto kBytes = uintptr_t(kFloats) * sizeof(T);
  int64_t i = 0, next = 0;  // the elements in between are no whole vector
  if (flow.is_streamed)
    next = std::min(n, int64_t((-reinterpret_cast<uintptr_t>(y) & (kBytes - 1)) / sizeof(T)));
  while (i < n) {
    if (i < next) store_narrow(y + i, result(i, Partial{next - i}), Partial{next - i});
    i = next;
    if (flow.is_streamed) {
      for (; i + kFloats <= n; i += kFloats) {
        if (flow.ahead) __builtin_prefetch(flow.ahead + i);
        stream_narrow(y + i, result(i, Whole{}));
      }
    } else {
      for (; i + kFloats <= n; i += kFloats) store_narrow(y + i, result(i, Whole{}), Whole{});
    }
    next = n;
  }
}

template <class T, class Formula>
void apply_activated(const Activation& f, T* y, const T* x, int64_t n, const Formula& formula,
                     Flow<T> flow) {
  if (f.kind == ActivationKind::swish)
    apply_formula(y, x, n, formula, Swish(f), flow);
  else if (f.kind == ActivationKind::relu || f.kind == ActivationKind::identity)
    apply_formula(y, x, n, formula, Floor(f), flow);
  else
    apply_formula(y, x, n, formula, AnyActivation(f), flow);
}

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA

#endif
