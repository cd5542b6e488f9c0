// Formulas for groups whose mean is near 0, which need not be subtracted before multiplying.
#pragma once

#include <cmath>
#include <type_traits>

#include "cpu/mvn/formulas.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

/// A group's part of its formula.
struct GroupFormula {
  float pivot, factor, shift;
  bool is_near;  // and its activation plain
};

/// y = (x * factor + shift) * scale + bias with a scale and a bias for each position.
struct NearAffineFormula {
  static constexpr bool kIsShort = true;
  Floats factor, shift;
  const float *scale, *bias;

  NearAffineFormula(const GroupFormula& g, const float* s, const float* b)
      : factor(broadcast(g.factor)),
        shift(fused(broadcast(-g.pivot), factor, broadcast(g.shift))),
        scale(s),
        bias(b) {}
  template <class Lanes>
  Floats operator()(Floats x, int64_t i, Lanes m) const {
    return fused(fused(x, factor, shift), load_wide(scale + i, m), load_wide(bias + i, m));
  }
};

/// y = x * factor + bias, the same along the row.
struct NearUniformFormula {
  static constexpr bool kIsShort = false;
  Floats factor, bias;

  template <class Lanes>
  Floats operator()(Floats x, int64_t, Lanes) const {
    return fused(x, factor, bias);
  }
};

/// The same with both for each position; rows are padded to whole vectors.
struct NearColumnFormula {
  static constexpr bool kIsShort = false;
  const float *factor, *shift;

  template <class Lanes>
  Floats operator()(Floats x, int64_t i, Lanes) const {
    return fused(x, load_wide(factor + i, Whole{}), load_wide(shift + i, Whole{}));
  }
};

/// y = (x * factor + shift) * scale + bias, the first two for each position; padded likewise.
struct NearCrossFormula {
  static constexpr bool kIsShort = false;
  const float *factor, *shift;
  Floats scale, bias;

  template <class Lanes>
  Floats operator()(Floats x, int64_t i, Lanes) const {
    const Whole all;
    return fused(fused(x, load_wide(factor + i, all), load_wide(shift + i, all)), scale, bias);
  }
};

/// y = ((x - pivot) * factor + shift) * scale + bias, all for each position; padded likewise.
struct GeneralFormula {
  static constexpr bool kIsShort = false;
  const float *pivot, *factor, *shift, *scale, *bias;

  template <class Lanes>
  Floats operator()(Floats x, int64_t i, Lanes) const {
    const Whole all;
    const Floats d = x - load_wide(pivot + i, all);
    return fused(fused(d, load_wide(factor + i, all), load_wide(shift + i, all)),
                 load_wide(scale + i, all), load_wide(bias + i, all));
  }
};

/// Rows of GeneralFormula.
struct GeneralRows {
  float *pivot, *factor, *shift, *scale, *bias;
};

/// Joins scale to factor and all summands to shift where `near` is 1 and the product safe: there
/// the general formula is then rounded as the near one is, whatever stands in other columns.
/// Returns whether that is everywhere. The product's rounding counts for x - pivot, not for x.
inline bool join_near(const float* near, int64_t n, GeneralRows r) {
  int far = 0;
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) {
    const float factor = r.factor[i] * r.scale[i], magnitude = std::fabs(factor);
    const float moved = fused(r.shift[i], r.scale[i], r.bias[i]);
    const float shift = fused(-r.pivot[i], factor, moved);
    const bool is_safe = (magnitude > 1e-30f && magnitude < 1e30f) || r.scale[i] == 0;
    const bool is_joined = near[i] != 0 && is_safe && std::fabs(shift) < 1e30f;
    r.pivot[i] = is_joined ? 0 : r.pivot[i];
    r.factor[i] = is_joined ? factor : r.factor[i];
    r.shift[i] = is_joined ? shift : r.shift[i];
    r.scale[i] = is_joined ? 1 : r.scale[i];
    r.bias[i] = is_joined ? -0.0f : r.bias[i];
    far |= !is_joined;
  }
  return !far;
}

/// No activation.
struct Nothing {
  Floats operator()(Floats x) const { return x; }
};

/// Rows of whole floats wait for memory whatever is computed; halves wait for conversions.
template <class T>
constexpr bool kHasNearRows = kIsHalf<T>;

/// A row or piece with one scale and one bias.
template <class T>
void apply_uniform(const Activation& f, T* y, const T* x, int64_t n, const GroupFormula& g,
                   float scale, float bias, Flow<T> flow) {
  if constexpr (kHasNearRows<T>) {
    float near = g.is_near, pivot = g.pivot, factor = g.factor, shift = g.shift, one = scale,
          rest = bias;
    if (g.is_near && join_near(&near, 1, {&pivot, &factor, &shift, &one, &rest})) {
      const NearUniformFormula formula{broadcast(factor), broadcast(shift)};
      if (f.kind == ActivationKind::identity)
        return apply_formula(y, x, n, formula, Nothing{}, flow);
      return apply_formula(y, x, n, formula, Floor(f), flow);
    }
  }
  apply_activated(f, y, x, n,
                  UniformFormula{broadcast(g.pivot), broadcast(g.factor), broadcast(g.shift),
                                 broadcast(scale), broadcast(bias)},
                  flow);
}

/// Rows of n elements that share a scale, and perhaps a bias, for each position.
template <class T, int kMost>
struct RowBatch {
  struct Row {
    T* y;
    const T *x, *ahead;  // what is read ahead, or null
    GroupFormula formula;
  };

  int64_t count, n;
  bool is_streamed;
  const float *scale, *bias;  // of which only the bias may be null
  Row row[kMost];

  /// Rows that are still to be named.
  RowBatch(int64_t rows, int64_t elements, bool streamed, const float* s, const float* b)
      : count(rows), n(elements), is_streamed(streamed), scale(s), bias(b) {}

  /// The same with one row.
  RowBatch only(const Row& one) const {
    RowBatch batch(1, n, is_streamed, scale, bias);
    batch.row[0] = one;
    return batch;
  }

  /// Calls fn(row, where its results go).
  template <class Fn>
  [[gnu::always_inline]] void for_rows(const Fn& fn) const {
    for (int64_t i = 0; i < count; ++i) fn(row[i], Flow<T>{is_streamed, row[i].ahead});
  }
};

/// Chooses among activations before it goes from row to row, since rows may be short.
template <class Batch, class FormulaOf>
void apply_rows(const Activation& f, const Batch& rows, const FormulaOf& formula_of) {
  if (f.kind == ActivationKind::swish)
    rows.for_rows([&](const auto& r, auto flow) {
      apply_formula(r.y, r.x, rows.n, formula_of(r.formula), Swish(f), flow);
    });
  else if (is_plain(f))
    rows.for_rows([&](const auto& r, auto flow) {
      apply_formula(r.y, r.x, rows.n, formula_of(r.formula), Floor(f), flow);
    });
  else
    rows.for_rows([&](const auto& r, auto flow) {
      apply_any(f, r.y, r.x, rows.n, formula_of(r.formula), flow);
    });
}

/// The same with the formula that suits a row best.
template <class T, int kMost>
[[gnu::noinline]] void apply_batch(const Activation& f, const RowBatch<T, kMost>& rows) {
  if (!rows.bias)
    return apply_rows(f, rows, [&](const GroupFormula& g) {
      return ScaledFormula{broadcast(g.factor), rows.scale};
    });
  const auto affine = [&](const GroupFormula& g) {
    return AffineFormula{broadcast(g.pivot), broadcast(g.factor), broadcast(g.shift), rows.scale,
                         rows.bias};
  };
  if (!kHasNearRows<T> || f.kind != ActivationKind::identity) return apply_rows(f, rows, affine);
  rows.for_rows([&](const auto& r, auto flow) {
    if (!r.formula.is_near) return apply_rows(f, rows.only(r), affine);
    apply_formula(r.y, r.x, rows.n, NearAffineFormula(r.formula, rows.scale, rows.bias), Nothing{},
                  flow);
  });
}

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
