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

/// Columns [first, first + n) of a tensor that is scale or bias, whose rows begin at `origin`.
template <class A>
void read_columns(const void* tensor, Dtype dtype, const GradColumns& layout,
                  int64_t MvnGradAxis::* stride, int64_t origin, int64_t first, int64_t n, A* to) {
  const int64_t of_cell = layout.kept.*stride, of_column = layout.folded.*stride;
  visit(dtype, FloatTypes{}, [&]<class T>() {
    const T* const from = static_cast<const T*>(tensor) + origin;
    layout.for_columns(first, n, [&](int64_t c, int64_t i, int64_t f) {
      to[c] = A(load_as_acc(from[i * of_cell + f * of_column]));
    });
  });
}

/// Scale with the slope of a linear activation, of columns [first, first + n).
template <class A>
void read_scales(const MvnGradPlan& plan, const Operands& o, const GradColumns& layout,
                 const GradOffsets& origin, int64_t first, int64_t n, A* to) {
  const double slope = linear_slope<A>(plan.activation);
  std::fill_n(to, n, A(1));
  if (plan.has_scale)
    read_columns(o.inputs[2], plan.scale_dtype, layout, &MvnGradAxis::scale, origin.scale, first, n,
                 to);
  for (int64_t c = 0; c < n; ++c) to[c] = static_cast<A>(double(to[c]) * slope);
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
      at[k] = GradWalk(layout_.reduced, layout_.row_rank, k * (layout_.rows / places)).offsets().x +
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

  /// Adds up sum k of `count` parts of all columns, those of products only where they have not been
  /// joined to a cell's. A column that is there several times has as many parts.
  void add_parts(const double* parts, int64_t count, int k) {
    const int64_t columns = layout_.unit;
    count *= layout_.repeat;
    std::unique_ptr<double[]>& sums = sums_[k];
    if (!sums) sums.reset(new double[size_t(layout_.outer * columns)]);
    if (count == 1) {
      for (int64_t i = 0; i < layout_.outer * columns; ++i)
        if (k < 2 || !is_joined_[size_t(i / layout_.fold)]) sums[size_t(i)] = parts[i];
      return;
    }
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
    for_outer([&](int64_t outer, const GradOffsets&) {
      for (int64_t i = 0; i < layout_.kept.size; ++i) {
        const int64_t cell = outer * layout_.kept.size + i;
        State& state = states_[size_t(cell)];
        const A* const own = scales_.get() + i * layout_.fold;
        const auto scale = [&](int64_t f) { return double(own[f]); };
        if (plan_.use_mean) state.mean_w = static_cast<A>(sum_of(cell, 2, scale) / n);
        if (plan_.use_variance) state.mean_wz = static_cast<A>(sum_of(cell, 3, scale) / n);
      }
    });
  }

  void add_totals() {
    const bool are_sums = plan_.kind == MvnGradKind::sums;
    const Totals<A> totals(plan_, 1, operands_);
    const double slope = linear_slope<A>(plan_.activation);
    for_outer([&](int64_t outer, const GradOffsets& origin) {
      for (int k = 0; k < 2; ++k) {
        if (!totals.is_wanted(k)) continue;
        const double* sum = sums_[(k == 0) != are_sums ? 3 : 2].get() + outer * layout_.unit;
        const A* scale = scales_.get();
        for (int64_t i = 0; i < layout_.kept.size; ++i) {
          int64_t at = origin.totals[k] + i * layout_.kept.totals[k];
          for (int64_t f = 0; f < layout_.fold; ++f, at += layout_.folded.totals[k])
            totals.add_one(0, k, at, *sum++ * (are_sums ? double(*scale++) : slope));
        }
      }
    });
    totals.finish();
  }

 private:
  static constexpr int64_t kPlaces = 32;  // of a cell that its mean is guessed from

  /// Calls fn(position, where its rows begin) for the positions of the kept dimensions outside,
  /// with the scales of its columns.
  template <class Fn>
  void for_outer(const Fn& fn) {
    if (!scales_) scales_.reset(new A[size_t(layout_.unit)]);
    GradWalk walk(plan_.kept, layout_.outer_rank, 0);
    int64_t filled = -1;  // with the scales from there on
    for (int64_t outer = 0; outer < layout_.outer; ++outer, walk.advance()) {
      const GradOffsets origin = walk.offsets();
      if (origin.scale != filled)
        read_scales(plan_, operands_, layout_, origin, 0, layout_.unit, scales_.get());
      filled = origin.scale;
      fn(outer, origin);
    }
  }

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
  std::unique_ptr<A[]> scales_;        // of the columns at one position outside
  std::unique_ptr<double[]> sums_[4];  // of each column: d, d * d; h, h * z
};

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
