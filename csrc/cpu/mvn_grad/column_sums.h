// Sums of all columns of a gradient, and what they come to for the cells.
#pragma once

#include <memory>

#include "cpu/mvn_grad/cell.h"
#include "cpu/mvn_grad/column_layout.h"
#include "cpu/mvn_grad/totals.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

/// The slope of a linear activation, or 1.
template <class A>
double linear_slope(const Activation& f) {
  return f.kind == ActivationKind::linear ? double(A(f.a)) : 1;
}

/// Scale with that slope, of column c of the rows at `origin`.
template <class A>
double column_scale(const MvnGradPlan& plan, const Operands& o, const GradColumns& layout,
                    const GradOffsets& origin, int64_t c) {
  const double slope = linear_slope<A>(plan.activation);
  if (!plan.has_scale) return slope;
  const int64_t at =
      origin.scale + c / layout.fold * layout.kept.scale + c % layout.fold * layout.folded.scale;
  return read_wide(o.inputs[2], plan.scale_dtype, at) * slope;
}

template <class A>
class ColumnSums {
 public:
  using State = CellState<A>;

  ColumnSums(const MvnGradPlan& plan, const Operands& operands)
      : plan_(plan),
        operands_(operands),
        layout_(plan),
        states_(new State[size_t(plan.cells)]),
        is_joined_(new bool[size_t(plan.cells)]()) {
    for (int64_t cell = 0; cell < plan_.cells; ++cell)
      states_[size_t(cell)] = state_given<A>(plan_, operands_, offsets(cell));
  }

  const GradColumns& layout() const { return layout_; }
  const State* states() const { return states_.get(); }

  /// Whether h and h * z are found for all cells.
  bool are_joined() const { return sums_[3] && are_joined_; }

  /// The mean of some elements at even distances as a pivot: of a constant cell exactly what it is
  /// made of.
  void guess() {
    int64_t places = 1, at[kPlaces];
    while (places < kPlaces && places * 16 <= layout_.rows) places *= 2;
    for (int64_t k = 0; k < places; ++k)
      at[k] = GradWalk(plan_.reduced, layout_.row_rank, k * (layout_.rows / places)).offsets().x +
              k % layout_.fold;
    for (int64_t cell = 0; cell < plan_.cells; ++cell) {
      const int64_t own = offsets(cell).x;
      A values[kPlaces];
      for (int64_t k = 0; k < places; ++k)
        values[k] = A(read_wide(operands_.inputs[0], plan_.dtype, own + at[k]));
      for (int64_t half = places / 2; half > 0; half /= 2)
        for (int64_t k = 0; k < half; ++k) values[k] += values[k + half];
      states_[size_t(cell)].normal.pivot = finite_or_0(values[0] / A(places));
    }
  }

  /// Adds up sum k of the parts of all columns, those of products only where they have not been
  /// joined to a cell's.
  void add_parts(const double* parts, int64_t count, int k) {
    const int64_t columns = layout_.columns;
    std::unique_ptr<double[]>& sums = sums_[k];
    if (!sums) sums.reset(new double[size_t(layout_.outer * columns)]);
    std::unique_ptr<Total<A>[]> joined(new Total<A>[size_t(columns)]);
    for (int64_t outer = 0; outer < layout_.outer; ++outer) {
      for (int64_t c = 0; c < columns; ++c) joined[size_t(c)] = {parts[c]};
      for (int64_t p = 1; p < count; ++p) {
        const double* const more = parts + p * columns;
#pragma GCC ivdep
        for (int64_t c = 0; c < columns; ++c) joined[size_t(c)].add(more[c]);
      }
      parts += count * columns;
      double* const to = sums.get() + outer * columns;
      for (int64_t c = 0; c < columns; ++c)
        if (k < 2 || !is_joined_[size_t(outer * layout_.kept.size + c / layout_.fold)])
          to[c] = joined[size_t(c)].value();
    }
  }

  /// Makes statistics of the sums about the pivots. A first time a cell whose pivot was far from
  /// its mean gets that instead, and nothing else is changed if there is one: returns false then.
  bool take_statistics(bool is_last) {
    bool are_near = true;
    for (int64_t cell = 0; !is_last && plan_.use_mean && cell < plan_.cells; ++cell) {
      const Moments<A> m = moments(cell);
      if (m.delta * m.delta <= 4 * (m.m2 / m.n)) continue;
      are_near = false;
      states_[size_t(cell)].normal.pivot = finite_or_0(static_cast<A>(double(m.pivot) + m.delta));
    }
    if (!are_near) return false;
    for (int64_t cell = 0; cell < plan_.cells; ++cell) {
      const Moments<A> m = moments(cell);
      Normalizer<A>& normal = states_[size_t(cell)].normal;
      normal = normalizer_of(m, plan_.use_variance, plan_.epsilon);
      if (sums_[3]) are_joined_ &= join(cell, double(normal.factor), m.delta);
    }
    return true;
  }

  void find_means() {
    const auto n = double(plan_.cell_size);
    for (int64_t cell = 0; cell < plan_.cells; ++cell) {
      State& state = states_[size_t(cell)];
      const int64_t outer = cell / layout_.kept.size,
                    first = cell % layout_.kept.size * layout_.fold;
      const GradOffsets at = GradWalk(plan_.kept, layout_.outer_rank, outer).offsets();
      const auto scale = [&](int64_t f) {
        return column_scale<A>(plan_, operands_, layout_, at, first + f);
      };
      if (plan_.use_mean) state.mean_w = static_cast<A>(sum_of(cell, 2, scale) / n);
      if (plan_.use_variance) state.mean_wz = static_cast<A>(sum_of(cell, 3, scale) / n);
    }
  }

  void add_totals() const {
    const bool are_sums = plan_.kind == MvnGradKind::sums;
    const Totals<A> totals(plan_, 1, operands_);
    for (int64_t i = 0; i < layout_.outer * layout_.columns; ++i) {
      const int64_t c = i % layout_.columns;
      GradOffsets at = GradWalk(plan_.kept, layout_.outer_rank, i / layout_.columns).offsets();
      const double by = are_sums ? column_scale<A>(plan_, operands_, layout_, at, c)
                                 : linear_slope<A>(plan_.activation);
      at.add(layout_.at(c));
      for (int k = 0; k < 2; ++k)
        if (totals.is_wanted(k))
          totals.add_one(0, k, at.totals[k], by * sums_[(k == 0) != are_sums ? 3 : 2][size_t(i)]);
    }
    totals.finish();
  }

 private:
  static constexpr int64_t kPlaces = 32;  // of a cell that its mean is guessed from

  GradOffsets offsets(int64_t cell) const {
    return GradWalk(plan_.kept, plan_.kept_rank, cell).offsets();
  }

  static A finite_or_0(A v) { return is_finite(double(v)) ? v : 0; }

  /// Sum k of a cell's columns, each times factor(column).
  template <class Factor>
  double sum_of(int64_t cell, int k, const Factor& factor) const {
    double sum = 0;
    for (int64_t f = 0; f < layout_.fold; ++f)
      sum += sums_[k][size_t(cell * layout_.fold + f)] * factor(f);
    return sum;
  }

  Moments<A> moments(int64_t cell) const {
    const auto n = double(plan_.cell_size);
    const auto one = [](int64_t) { return 1.0; };
    const double sum = sum_of(cell, 0, one), square = sum_of(cell, 1, one);
    if (!plan_.use_mean) return {n, 0, 0, square};
    return moments_about<A>(n, states_[size_t(cell)].normal.pivot, sum, square);
  }

  /// Turns a cell's h * d into h * z, if that loses nothing: no product of d has left the range.
  bool join(int64_t cell, double factor, double delta) {
    double all = 0;
    for (int64_t f = 0; f < layout_.fold; ++f) {
      const auto c = size_t(cell * layout_.fold + f);
      sums_[3][c] = factor * fused(-delta, sums_[2][c], sums_[3][c]);
      all += sums_[3][c];
    }
    return is_joined_[size_t(cell)] = factor >= 0x1p-20 && factor <= 0x1p20 && is_finite(all);
  }

  const MvnGradPlan& plan_;
  const Operands& operands_;
  GradColumns layout_;
  std::unique_ptr<State[]> states_;
  std::unique_ptr<bool[]> is_joined_;  // h * z of a cell's columns is found
  bool are_joined_ = true;
  std::unique_ptr<double[]> sums_[4];  // of each column: d, d * d; h, h * z
};

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
