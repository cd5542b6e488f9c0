// The formula of normalization with given statistics over packed elements, by explicit vectors. All
// its forms are rounded as the plain path is: an element's bits do not tell which path took it.
#pragma once

#include "cpu/memory/tuning.h"
#include "cpu/mvn/formulas.h"
#include "cpu/mvn/walk.h"
#include "cpu/threads/parallel.h"
#include "ops/normalize.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

/// y = ((x - pivot) - delta) * factor * scale + bias, all but x the same along the row.
struct GivenUniform {
  static constexpr bool kIsShort = false;
  Floats pivot, delta, factor, scale, bias;

  template <class Lanes>
  Floats operator()(Floats x, int64_t, Lanes) const {
    return fused(((x - pivot) - delta) * factor, scale, bias);
  }
};

/// The same where floats hold the means exactly: a difference less 0 is the difference.
struct GivenNearUniform {
  static constexpr bool kIsShort = false;
  Floats pivot, factor, scale, bias;

  template <class Lanes>
  Floats operator()(Floats x, int64_t, Lanes) const {
    return fused((x - pivot) * factor, scale, bias);
  }
};

/// What is the same along each of some rows.
struct RowConstants {
  const float *pivot, *delta, *factor, *scale, *bias;

  RowConstants from(int64_t r) const {
    return {pivot + r, delta + r, factor + r, scale + r, bias + r};
  }
  /// Of row r, as a formula.
  template <class Formula>
  Formula of(int64_t r) const {
    const Floats p = broadcast(pivot[r]), f = broadcast(factor[r]), s = broadcast(scale[r]),
                 b = broadcast(bias[r]);
    if constexpr (std::is_same_v<Formula, GivenNearUniform>)
      return {p, f, s, b};
    else
      return {p, broadcast(delta[r]), f, s, b};
  }
};

/// The same with a scale and a bias for each position.
struct GivenAffine {
  static constexpr bool kIsShort = false;
  Floats pivot, delta, factor;
  const float *scale, *bias;

  template <class Lanes>
  Floats operator()(Floats x, int64_t i, Lanes m) const {
    return fused(((x - pivot) - delta) * factor, load_wide(scale + i, m), load_wide(bias + i, m));
  }
};

/// Statistics, scale and bias of each position.
template <class A>
struct GivenPositions {
  static constexpr bool kIsShort = false;
  const A *pivot, *delta, *factor, *scale, *bias;

  template <class Lanes>
  Floats operator()(Floats x, int64_t i, Lanes m) const {
    const Floats d = (x - load_wide(pivot + i, m)) - load_wide(delta + i, m);
    return fused(d * load_wide(factor + i, m), load_wide(scale + i, m), load_wide(bias + i, m));
  }
};

/// The same where floats hold the means exactly.
struct GivenNearPositions {
  static constexpr bool kIsShort = false;
  const float *pivot, *factor, *scale, *bias;

  explicit GivenNearPositions(const GivenPositions<float>& p)
      : pivot(p.pivot), factor(p.factor), scale(p.scale), bias(p.bias) {}
  template <class Lanes>
  Floats operator()(Floats x, int64_t i, Lanes m) const {
    const Floats d = x - load_wide(pivot + i, m);
    return fused(d * load_wide(factor + i, m), load_wide(scale + i, m), load_wide(bias + i, m));
  }
};

/// Whether a result that is large is written past the caches. `follow`: rows begin where others end
/// and are not told apart. Lines that rows fill in part are read first, which only long ones make
/// up for.
template <class T>
bool is_given_streamed(const NormalizePlan& plan, const T* x, const T* y, bool follow) {
  const int64_t row_bytes = plan.axis[plan.rank - 1].size * int64_t(sizeof(T));
  const bool are_lines = row_bytes % 64 == 0 && bytes_to_line(y) == 0;
  return x != y && (follow || are_lines || row_bytes >= tuning::normalize::kStreamedRowBytes);
}

/// y[i] = f(formula(x[i])) for i in [0, n). y may be x.
template <class T, class Formula>
void apply_given(const Activation& f, T* y, const T* x, int64_t n, const Formula& formula,
                 Flow<T> flow) {
  if (f.kind == ActivationKind::swish)
    apply_formula(y, x, n, formula, Swish(f), flow);
  else if (is_plain(f))
    apply_formula(y, x, n, formula, Floor(f), flow);
  else
    apply_any(f, y, x, n, formula, flow);
}

/// The same of doubles, as the compiler makes vectors of them.
inline void apply_given(const Activation& f, double* y, const double* x, int64_t n,
                        const GivenPositions<double>& p, Flow<double>) {
  const auto normalized = [&p](double v, int64_t i) {
    return ((v - p.pivot[i]) - p.delta[i]) * p.factor[i];
  };
  write_row(f, y, 1, x, n, normalized, {p.scale}, {p.bias}, static_cast<double*>(nullptr));
}

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
