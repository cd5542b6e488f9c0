// The formula of normalization over a row, from vectors in registers to the rounded result.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

#include "cpu/mvn/activation.h"
#include "cpu/simd/swish.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

// kIsShort: rows of the formula may be so short that two vectors of 16 numbers count.

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
  static constexpr bool kIsShort = false;
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

/// y = x * factor * scale with a scale for each position.
struct ScaledFormula {
  static constexpr bool kIsShort = true;
  Floats factor;
  const float* scale;

  template <class Lanes>
  Floats operator()(Floats x, int64_t i, Lanes m) const {
    return x * factor * load_wide(scale + i, m);
  }
};

/// y = ((x - pivot) * factor + shift) * scale + bias with a scale and a bias for each position.
struct AffineFormula {
  static constexpr bool kIsShort = true;
  Floats pivot, factor, shift;
  const float *scale, *bias;

  template <class Lanes>
  Floats operator()(Floats x, int64_t i, Lanes m) const {
    return fused(fused(x - pivot, factor, shift), load_wide(scale + i, m), load_wide(bias + i, m));
  }
};

/// Columns of many groups that share scale and bias in each row; rows are padded to whole vectors.
struct CrossFormula {
  static constexpr bool kIsShort = false;
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

/// Whether Floor is all there is of an activation.
inline bool is_plain(const Activation& f) {
  return f.kind == ActivationKind::identity || f.kind == ActivationKind::relu;
}

/// Where results go, and what is read ahead meanwhile.
template <class T>
struct Flow {
  bool is_streamed = false;  // past the caches
  const T* ahead = nullptr;  // as long as the row, or null
};

/// Whether a vector of elements fills a line of memory.
template <class T>
constexpr bool kIsLine = kFloats * sizeof(T) == 64;

/// Elements from y to where whole vectors may be streamed.
template <class T>
inline int64_t to_line(const T* y) {
  return bytes_to_line(y) / int64_t(sizeof(T));
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

/// v = f(formula(x[i])) for kCount vectors from i on. Returns whether they are known to be numbers.
template <int kCount, class T, class Formula, class F, class Lanes>
[[gnu::always_inline]] inline bool compute_vectors(Floats (&v)[kCount], const T* x, int64_t i,
                                                   const Formula& formula, const F& f, Lanes m) {
#pragma GCC unroll 4
  for (int k = 0; k < kCount; ++k)
    v[k] = formula(load_wide(x + i + k * kFloats, m), i + k * kFloats, m);
  return activate_vectors(f, v);
}

/// Whole vectors from i on, kCount at once, while there are as many. Returns the end of the last.
template <int kCount, class T, class Formula, class F, class Streamed>
[[gnu::always_inline]] inline int64_t apply_whole(T* y, const T* x, int64_t i, int64_t n,
                                                  const Formula& formula, const F& f,
                                                  const T* ahead, Streamed is_streamed) {
  const bool converts = converts_pairs();
  for (; i + kCount * kFloats <= n; i += kCount * kFloats) {
    if (ahead)
      for (int64_t l = 0; l < kCount * kFloats; l += 64 / int64_t(sizeof(T)))
        __builtin_prefetch(ahead + i + l, 0, 3);
    Floats v[kCount];
    const bool are_numbers = compute_vectors(v, x, i, formula, f, Whole{});
#pragma GCC unroll 2
    for (int k = 0; k < kCount; k += 2)
      put_pair(y + i + k * kFloats, v[k], v[k + 1], is_streamed, are_numbers, converts);
  }
  return i;
}

/// y[i] = f(formula(x[i])) for i in [0, n), rounded once. y may be x.
template <class T, class Formula, class F>
[[gnu::always_inline]] inline void apply_formula(T* y, const T* x, int64_t n, const Formula formula,
                                                 const F f, Flow<T> flow) {
  int64_t i = 0, next = 0;  // the elements in between are not done by pairs of vectors
  if (flow.is_streamed) next = std::min(n, to_line(y));
  for (;;) {
    for (; i < next; i += kFloats) {
      const Partial m{std::min(next - i, kFloats)};
      Floats v[1];
      const bool are_numbers = compute_vectors(v, x, i, formula, f, m);
      // The stores past the caches that follow would wait for a line that is fetched to be written.
      if (kIsLine<T> && flow.is_streamed && m.n == kFloats)
        stream_narrow(y + i, v[0]);
      else
        store_narrow(y + i, v[0], m, are_numbers);
    }
    if (next == n) return;
    i = next;
    if constexpr (std::is_same_v<F, Swish>) {
      // The chain of operations is long: four of them take turns.
      i = apply_whole<4>(y, x, i, n, formula, f, flow.ahead, flow.is_streamed);
      if constexpr (Formula::kIsShort && kFloats == 16)
        i = apply_whole<2>(y, x, i, n, formula, f, flow.ahead, flow.is_streamed);
    } else if (flow.is_streamed) {
      i = apply_whole<2>(y, x, i, n, formula, f, flow.ahead, std::true_type{});
    } else {
      i = apply_whole<2>(y, x, i, n, formula, f, flow.ahead, std::false_type{});
    }
    next = n;
  }
}

/// Rows of any activation, through memory: fill(first, count, row, x, formula) computes the formula
/// of elements from `first` on, which stand at x.
template <class T>
struct AnyRow {
  void (*fill)(int64_t first, int64_t count, float* row, const T* x, const void* formula);

  [[gnu::noinline]] void apply(const Activation& f, T* y, const T* x, int64_t n,
                               const void* formula, bool is_streamed) const {
    constexpr int64_t kMost = 256;
    alignas(64) float row[kMost];
    for (int64_t first = 0, count; first < n; first += count) {
      const int64_t head = is_streamed ? to_line(y + first) : 0;
      count = std::min(head ? head : kMost, n - first);
      fill(first, count, row, x + first, formula);
      activate_row(f, row, (count + kFloats - 1) / kFloats * kFloats);
      for (int64_t i = 0; i < count; i += kFloats)
        with_lanes(count - i, [&](auto m) {
          put(y + first + i, load_vector<Floats>(row + i), m, is_streamed && head == 0);
        });
    }
  }
};

/// The same for any activation.
template <class T, class Formula>
[[gnu::noinline]] void apply_any(const Activation& f, T* y, const T* x, int64_t n,
                                 const Formula formula, Flow<T> flow) {
  const AnyRow<T> any{[](int64_t first, int64_t count, float* row, const T* at, const void* how) {
    const auto& formula_of = *static_cast<const Formula*>(how);
    for (int64_t i = 0; i < count; i += kFloats)
      with_lanes(count - i, [&](auto m) {
        store_vector(row + i, formula_of(load_wide(at + i, m), first + i, m));
      });
  }};
  any.apply(f, y, x, n, &formula, flow.is_streamed);
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
  else if (is_plain(f))
    apply_formula(y, x, n, formula, Floor(f), flow);
  else
    apply_any(f, y, x, n, formula, flow);
}

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
