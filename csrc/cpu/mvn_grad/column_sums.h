// Sums of all columns of a gradient, and what they come to for the cells.
#pragma once

#include <algorithm>
#include <memory>

#include "cpu/mvn_grad/cell.h"
#include "cpu/mvn_grad/column_layout.h"
#include "cpu/mvn_grad/column_states.h"
#include "cpu/mvn_grad/joined.h"
#include "cpu/mvn_grad/totals.h"
#include "cpu/threads/interrupt.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

/// The slope of a linear activation, or 1.
template <class A>
double linear_slope(const Activation& f) {
  return f.kind == ActivationKind::linear ? double(A(f.a)) : 1;
}

/// Columns [first, first + n) of a tensor that is scale or bias, whose rows begin at `origin`.
/// There is room for a vector behind them.
template <class A>
void read_columns(const void* tensor, Dtype dtype, const GradColumns& layout,
                  int64_t MvnGradAxis::* stride, int64_t origin, int64_t first, int64_t n, A* to) {
  const int64_t of_cell = layout.kept.*stride, of_column = layout.folded.*stride;
  visit(dtype, FloatTypes{}, [&]<class T>() {
    const T* const from = static_cast<const T*>(tensor) + origin;
    if (of_cell == 1 && layout.fold == 1)
      return layout.for_runs(first, n, [&](int64_t c, int64_t count, int64_t i) {
        for (int64_t k = 0; k < count; ++k) to[c + k] = A(load_as_acc(from[i + k]));
      });
    layout.for_cells(first, n, [&](int64_t c, int64_t count, int64_t i, int64_t f) {
      const T* const own = from + i * of_cell + f * of_column;
      if (of_column == 0) return fill_beyond(to + c, count, A(load_as_acc(*own)));
      for (int64_t k = 0; k < count; ++k) to[c + k] = A(load_as_acc(own[k * of_column]));
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
  if (slope == 1) return;
  for (int64_t c = 0; c < n; ++c) to[c] = static_cast<A>(double(to[c]) * slope);
}

/// All memory is taken at the beginning. Calls for different positions may come from different
/// threads.
template <class A>
class ColumnSums {
 public:
  ColumnSums(const MvnGradPlan& plan, const Operands& operands, bool has_products)
      : plan_(plan),
        operands_(operands),
        layout_(plan),
        has_products_(has_products),
        has_own_scales_(std::any_of(plan.kept, plan.kept + layout_.outer_rank,
                                    [](const MvnGradAxis& a) { return a.scale != 0; })),
        memory_(new std::byte[size_t(place(nullptr))]) {
    place(memory_.get());
    Pace pace;
    for_parts(plan.cells, pace, [&](int64_t first, int64_t n) {
      states_.clear(first, n);
      std::fill_n(is_joined_ + first, n, false);
    });
    if (has_products) read_all_scales();
    if (plan.has_own_statistics()) find_places();
    if (plan.are_given || plan.has_sums)
      for_cells(layout_.all(), [&](int64_t cell, const GradOffsets& at) {
        states_.set(cell, state_given<A>(plan_, operands_, at));
      });
  }

  const GradColumns& layout() const { return layout_; }
  const ColumnStates<A>& states() const { return states_; }

  /// Whether h and h * z are found for all cells of some positions.
  bool are_joined(const CellRange& range) const {
    for (int64_t outer = range.outer; outer < range.outer_end; ++outer)
      for (int64_t i = range.begin; i < range.end; ++i)
        if (!is_joined_[outer * layout_.kept.size + i]) return false;
    return true;
  }

  /// The mean of some elements at even distances as a pivot: of a constant cell exactly what it is
  /// made of.
  void guess(const CellRange& range) {
    Pace pace;
    visit(plan_.dtype, FloatTypes{}, [&]<class T>() {
      const T* const x = static_cast<const T*>(operands_.inputs[0]);
      GradWalk walk(plan_.kept, layout_.outer_rank, range.outer);
      for (int64_t outer = range.outer; outer < range.outer_end; ++outer, walk.advance()) {
        const T* const row = x + walk.offsets().x;
        A* const pivots = states_.pivots + outer * layout_.kept.size;
        for (int64_t i = range.begin; i < range.end; i += kGuessed) {
          pace.add(kGuessed * places_);
          guess_some(row + i * layout_.kept.x, std::min(kGuessed, range.end - i), pivots + i);
        }
      }
    });
  }

  /// Takes sum k of columns [first, first + n) at a position over, that of products only where it
  /// has not been joined to a cell's.
  void put(int64_t outer, int64_t first, int64_t n, const double* from, int k) {
    double* const to = sums_[k] + outer * layout_.unit;
    if (k < 2) return void(std::copy_n(from, n, to + first));
    const bool* const joined = is_joined_ + outer * layout_.kept.size;
    layout_.for_cells(first, n, [&](int64_t c, int64_t count, int64_t i, int64_t) {
      if (!joined[i]) std::copy_n(from + c, count, to + first + c);
    });
  }

  /// The same of all columns, of `count` parts of each, which add up. A column that is there
  /// several times has as many parts.
  void add_parts(const CellRange& range, const double* parts, int64_t count, int k) {
    const int64_t end = range.end * layout_.fold;
    count *= layout_.repeat;
    Pace pace;
    for (int64_t outer = range.outer; outer < range.outer_end; ++outer) {
      const double* const own = parts + outer * count * layout_.unit;
      for (int64_t first = range.begin * layout_.fold; first < end; first += kPartColumns) {
        const int64_t n = std::min(kPartColumns, end - first);
        double sums[kPartColumns];
        pace.add(n * count);
        add_part_columns(own + first, count, n, sums);
        put(outer, first, n, sums, k);
      }
    }
  }

  /// Makes statistics of the sums about the pivots. A first time a cell whose pivot was far from
  /// its mean gets that instead, and nothing else is changed if there is one: returns false then.
  bool take_statistics(const CellRange& range, bool has_products, bool is_last) {
    bool are_near = true;
    if (!is_last && plan_.use_mean)
      for_some(range, [&](int64_t cell, int64_t count, const SumsOfCells<A>& sums) {
        if (sums.are_near()) return;
        are_near = false;
        move_pivots(cell, count, sums);
      });
    if (!are_near) return false;
    for_some(range, [&](int64_t cell, int64_t count, SumsOfCells<A>& sums) {
      sums.normalize(states_.pivots + cell, states_.deltas + cell, states_.factors + cell);
      if (has_products)
        layout_.fold == 1 ? join(cell, count, sums) : join_folded(cell, count, sums);
    });
    return true;
  }

  void find_means(const CellRange& range) {
    Pace pace;
    for (int64_t outer = range.outer; outer < range.outer_end; ++outer)
      for_parts(range.each(), pace, [&](int64_t first, int64_t n) {
        const int64_t i = range.begin + first, cell = outer * layout_.kept.size + i;
        const A* const scale = scales(outer) + i * layout_.fold;
        if (plan_.use_mean) find_means(2, cell, n, scale, states_.means_w + cell);
        if (plan_.use_variance) find_means(3, cell, n, scale, states_.means_wz + cell);
      });
  }

  void add_totals() {
    const bool are_sums = plan_.kind == MvnGradKind::sums;
    const Totals<A> totals(plan_, 1, operands_);
    const double slope = linear_slope<A>(plan_.activation);
    const MvnGradAxis& along = layout_.fold == 1 ? layout_.kept : layout_.folded;
    GradWalk walk(plan_.kept, layout_.outer_rank, 0);
    Pace pace;
    for (int64_t outer = 0; outer < layout_.outer; ++outer, walk.advance())
      for (int k = 0; k < 2; ++k) {
        if (!totals.is_wanted(k)) continue;
        const double* sum = sums_[(k == 0) != are_sums ? 3 : 2] + outer * layout_.unit;
        const A* scale = scales(outer);
        int64_t at = walk.offsets().totals[k];
        const int64_t row = layout_.fold == 1 ? layout_.unit : layout_.fold, step = along.totals[k];
        for (int64_t c = 0; c < layout_.unit; c += row, at += layout_.kept.totals[k])
          for_parts(row, pace, [&](int64_t first, int64_t n) {
            totals.add_sums(0, k, at + first * step, step, n, [&, from = c + first](int64_t i) {
              return sum[from + i] * (are_sums ? double(scale[from + i]) : slope);
            });
          });
      }
    totals.finish();
  }

 private:
  static constexpr int64_t kPlaces = 32;  // of a cell that its mean is guessed from
  static constexpr int64_t kGuessed = 16;
  static constexpr int64_t kPartColumns = 256;

  /// Calls fn(first, how many) for parts of `count` cells or columns, between which a call may end.
  template <class Fn>
  static void for_parts(int64_t count, Pace& pace, const Fn& fn) {
    constexpr int64_t kPart = 4096;
    for (int64_t first = 0; first < count; first += kPart) {
      const int64_t n = std::min(kPart, count - first);
      pace.add(n);
      fn(first, n);
    }
  }

  /// Calls fn(cell, where it begins) for the cells at some positions.
  template <class Fn>
  void for_cells(const CellRange& range, const Fn& fn) const {
    Pace pace;
    GradWalk walk(plan_.kept, layout_.outer_rank, range.outer);
    for (int64_t outer = range.outer; outer < range.outer_end; ++outer, walk.advance()) {
      GradOffsets at = walk.offsets();
      at.add(layout_.kept, range.begin);
      for (int64_t i = range.begin; i < range.end; ++i, at.add(layout_.kept, 1)) {
        pace.add(1);
        fn(outer * layout_.kept.size + i, at);
      }
    }
  }

  /// Gives arrays their places in the memory, and returns how much that is.
  int64_t place(std::byte* memory) {
    Carver carver(memory);
    const bool is_summed[2] = {plan_.has_own_statistics(), has_products_};
    for (int k = 0; k < 4; ++k)
      if (is_summed[k / 2]) sums_[k] = carver.take<double>(layout_.outer * layout_.unit);
    states_ = ColumnStates<A>(plan_.cells, carver);
    is_joined_ = carver.take<bool>(plan_.cells);
    scales_ = carver.take<A>((has_own_scales_ ? layout_.outer : 1) * layout_.unit + kLanes<A>);
    return carver.bytes();
  }

  /// Where a cell's guess is taken from, from its beginning.
  void find_places() {
    places_ = 1;
    while (places_ < kPlaces && places_ * 16 <= layout_.rows) places_ *= 2;
    for (int64_t k = 0; k < places_; ++k)
      place_[k] =
          GradWalk(layout_.reduced, layout_.row_rank, k * (layout_.rows / places_)).offsets().x +
          k % layout_.fold;
  }

  /// Of the columns at one position outside, or at each of them where scale varies.
  void read_all_scales() {
    const int64_t count = has_own_scales_ ? layout_.outer : 1, unit = layout_.unit;
    GradWalk walk(plan_.kept, layout_.outer_rank, 0);
    Pace pace;
    for (int64_t outer = 0; outer < count; ++outer, walk.advance())
      for_parts(unit, pace, [&](int64_t first, int64_t n) {
        read_scales(plan_, operands_, layout_, walk.offsets(), first, n,
                    scales_ + outer * unit + first);
      });
  }
  const A* scales(int64_t outer) const {
    return scales_ + (has_own_scales_ ? outer * layout_.unit : 0);
  }

  /// Adds up the parts of n columns.
  void add_part_columns(const double* parts, int64_t count, int64_t n, double* sums) const {
    Total<A> joined[kPartColumns];
    for (int64_t c = 0; c < n; ++c) joined[c] = {parts[c]};
    for (int64_t p = 1; p < count; ++p) {
      const double* const more = parts + p * layout_.unit;
      for (int64_t c = 0; c < n; ++c) joined[c].add(more[c]);
    }
    for (int64_t c = 0; c < n; ++c) sums[c] = joined[c].value();
  }

  static A finite_or_0(A v) { return is_finite(double(v)) ? v : 0; }

  /// Guesses of n cells that follow each other.
  template <class T>
  void guess_some(const T* x, int64_t n, A* to) const {
    A values[kPlaces][kGuessed];
    for (int64_t k = 0; k < places_; ++k)
      for (int64_t c = 0; c < n; ++c)
        values[k][c] = A(load_as_acc(x[place_[k] + c * layout_.kept.x]));
    for (int64_t half = places_ / 2; half > 0; half /= 2)
      for (int64_t k = 0; k < half; ++k)
        for (int64_t c = 0; c < n; ++c) values[k][c] += values[k + half][c];
    for (int64_t c = 0; c < n; ++c) to[c] = finite_or_0(values[0][c] / A(places_));
  }

  /// What columns of some cells add up to.
  void add_columns(int k, int64_t cell, int64_t count, double* to) const {
    const double* from = sums_[k] + cell * layout_.fold;
    if (layout_.fold == 1) return void(std::copy_n(from, count, to));
    for (int64_t c = 0; c < count; ++c) {
      to[c] = 0;
      for (int64_t f = 0; f < layout_.fold; ++f) to[c] += *from++;
    }
  }

  /// Calls fn(first cell, how many, their sums) until all cells of some positions are through.
  template <class Fn>
  void for_some(const CellRange& range, const Fn& fn) const {
    Pace pace;
    for (int64_t outer = range.outer; outer < range.outer_end; ++outer)
      for (int64_t i = range.begin; i < range.end; i += kTogether) {
        const int64_t cell = outer * layout_.kept.size + i,
                      count = std::min(kTogether, range.end - i);
        SumsOfCells<A> sums(plan_, count);
        pace.add(count * layout_.fold);
        add_columns(0, cell, count, sums.sum);
        add_columns(1, cell, count, sums.square);
        fn(cell, count, sums);
      }
  }

  void move_pivots(int64_t cell, int64_t count, const SumsOfCells<A>& sums) {
    A* const pivot = states_.pivots + cell;
    for (int64_t c = 0; c < count; ++c)
      if (!sums.is_near(c)) pivot[c] = finite_or_0(static_cast<A>(double(pivot[c]) + sums.mean(c)));
  }

  /// The means of w, or of w * z, of n cells.
  void find_means(int k, int64_t cell, int64_t n, const A* scale, A* to) const {
    const double share = 1 / double(plan_.cell_size);
    const double* sum = sums_[k] + cell * layout_.fold;
    if (layout_.fold == 1) {
      for (int64_t c = 0; c < n; ++c) to[c] = static_cast<A>(sum[c] * double(scale[c]) * share);
      return;
    }
    for (int64_t c = 0; c < n; ++c) {
      double all = 0;
      for (int64_t f = 0; f < layout_.fold; ++f) all += *sum++ * double(*scale++);
      to[c] = static_cast<A>(all * share);
    }
  }

  /// Turns cells' h * d into h * z, if that loses nothing: no product of d has left the range.
  void join(int64_t cell, int64_t count, const SumsOfCells<A>& sums) {
    const A* const factors = states_.factors + cell;
    const double* const h = sums_[2] + cell;
    double* const product = sums_[3] + cell;
    bool* const joined = is_joined_ + cell;
    for (int64_t c = 0; c < count; ++c) {
      const auto factor = double(factors[c]);
      product[c] = factor * fused(-sums.delta[c], h[c], product[c]);
      joined[c] = is_joinable(factor) & is_finite(product[c]);
    }
  }

  void join_folded(int64_t cell, int64_t count, const SumsOfCells<A>& sums) {
    const double* h = sums_[2] + cell * layout_.fold;
    double* product = sums_[3] + cell * layout_.fold;
    for (int64_t c = 0; c < count; ++c) {
      const auto factor = double(states_.factors[cell + c]);
      double all = 0;
      for (int64_t f = 0; f < layout_.fold; ++f, ++product) {
        *product = factor * fused(-sums.delta[c], *h++, *product);
        all += *product;
      }
      is_joined_[size_t(cell + c)] = is_joinable(factor) && is_finite(all);
    }
  }

  const MvnGradPlan& plan_;
  const Operands& operands_;
  GradColumns layout_;
  bool has_products_, has_own_scales_;
  int64_t places_ = 1, place_[kPlaces] = {};
  std::unique_ptr<std::byte[]> memory_;
  ColumnStates<A> states_;
  bool* is_joined_;       // h * z of a cell's columns is found
  A* scales_;             // of columns, at one position outside or at each
  double* sums_[4] = {};  // of each column: d, d * d; h, h * z
};

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
