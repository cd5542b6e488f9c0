// Columns of doubles side by side: what belongs to each of them, and what is done with rows, one
// after the other, whose sums stay in the first-level cache.
#pragma once

#include <algorithm>

#include "cpu/mvn_grad/column_passes.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

using tuning::mvn_grad::kGradColumns;

class WideBlock {
 public:
  WideBlock(const MvnGradPlan& plan, const Operands& o, const GradColumns& layout)
      : plan_(plan),
        operands_(o),
        layout_(layout),
        places_(layout, plan.reads_x()),
        x_(plan.reads_x() ? static_cast<const double*>(o.inputs[0]) : nullptr),
        grad_(static_cast<const double*>(o.inputs[1])),
        dx_(plan.wants_dx ? static_cast<double*>(o.outputs[0]) : nullptr),
        is_passing_(!reads_input(plan.activation.kind)),
        has_product_(takes_product(plan)) {}

  const ColumnSpan& span() const { return span_; }

  /// Turns to other columns; `states` are those of all cells.
  void begin(const ColumnSpan& span, const ColumnStates<double>& states) {
    span_ = span;
    origin_ = GradWalk(plan_.kept, layout_.outer_rank, span.outer).offsets();
    set_constants(plan_, operands_, layout_, span, origin_, states, columns_);
    origin_.add(layout_.at(span.first));
  }

  void clear() {
    for (Row& sums : sums_) std::fill_n(sums, span_.n, 0.0);
  }

  /// Rows [first, first + n) of all.
  void run(int64_t first, int64_t n, const ColumnWork& work) {
    const MvnGradAxis& inner = layout_.reduced[layout_.row_rank - 1];
    for_axis_pieces(layout_.reduced, layout_.row_rank, origin_, first, n,
                    [&](const GradOffsets& o, int64_t, int64_t length) {
                      for (int64_t i = 0; i < length; ++i) {
                        const double* const x = x_ ? x_ + o.x + i * inner.x : zeros_;
                        const double* const grad = grad_ + o.grad + i * inner.grad;
                        double* const dx = dx_ ? dx_ + o.dx + i * inner.dx : nullptr;
                        if (layout_.is_gathered)
                          take_gathered(x, grad, dx, work);
                        else
                          take_row(x, grad, dx, work);
                      }
                    });
  }

  /// Hands the sums of each column over: those of the moments, and those of the products.
  void take_sums(const ColumnWork& work, double* const (&to)[4]) const {
    for (int k = 0; k < 4; ++k)
      if (k < 2 ? work.moments : work.products) std::copy_n(sums_[k], span_.n, to[k]);
  }

 private:
  using Row = double[kGradColumns];

  void take_row(const double* x, const double* grad, double* dx, const ColumnWork& work) {
    if (work.moments)
      add_deviations(x, work.products ? grad : nullptr);
    else
      finish(x, grad, dx, work);
  }

  void take_gathered(const double* x, const double* grad, double* dx, const ColumnWork& work) {
    for (int64_t c = 0; c < span_.n; ++c) {
      gathered_[0][c] = x[places_.x[c]];
      gathered_[1][c] = grad[places_.grad[c]];
    }
    take_row(gathered_[0], gathered_[1], gathered_[2], work);
    if (!work.writes) return;
    for (int64_t c = 0; c < span_.n; ++c) dx[places_.dx[c]] = gathered_[2][c];
  }

  /// Calls fn.operator()<V>(c) for columns c, where V is a vector of them or, at the end, one.
  template <class Fn>
  [[gnu::always_inline]] void for_columns(const Fn& fn) const {
    int64_t c = 0;
    for (; c + kDoubles <= span_.n; c += kDoubles) fn.template operator()<Doubles>(c);
    for (; c < span_.n; ++c) fn.template operator()<double>(c);
  }

  /// Adds a to the first sums of columns, and a * b to the second.
  template <class V>
  [[gnu::always_inline]] void add(int64_t c, Row& first, Row& second, V a, V b) {
    store_vector(first + c, load_vector<V>(first + c) + a);
    store_vector(second + c, fused(a, b, load_vector<V>(second + c)));
  }

  /// d = x - pivot and its square; of a gradient that passes as it is h and h * d, too.
  [[gnu::noinline]] void add_deviations(const double* x, const double* grad) {
    for_columns([&]<class V>(int64_t c) __attribute__((always_inline)) {
      const V d = load_vector<V>(x + c) - load_vector<V>(columns_.pivot + c);
      add<V>(c, sums_[0], sums_[1], d, d);
      if (grad) add<V>(c, sums_[2], sums_[3], load_vector<V>(grad + c), d);
    });
  }

  /// h and h * z, and dx or what is kept in its place.
  [[gnu::noinline]] void finish(const double* x, const double* grad, double* dx,
                                const ColumnWork& work) {
    const auto& of = columns_;
    const bool is_passing = is_passing_ || (work.is_kept && work.writes);
    double* const passed = work.is_kept ? dx : h_;
    for_columns([&]<class V>(int64_t c) __attribute__((always_inline)) {
      const auto at = [&](const double* row) { return load_vector<V>(row + c); };
      const V z = ((at(x) - at(of.pivot)) - at(of.delta)) * at(of.factor);
      store_vector(z_ + c, z);
      if (!is_passing) store_vector(passed + c, fused(at(of.scale), z, at(of.bias)));
    });
    if (!is_passing) pass_row(plan_.activation, passed, grad, passed, span_.n);
    const double* const h = is_passing_ ? grad : passed;
    for_columns([&]<class V>(int64_t c) __attribute__((always_inline)) {
      const auto at = [&](const double* row) { return load_vector<V>(row + c); };
      if (work.products) add<V>(c, sums_[2], sums_[3], at(h), at(z_));
      if (!work.writes) return;
      const V d = fused(at(h), at(of.scale), at(of.shift));
      store_vector(dx + c, at(of.factor) * (has_product_ ? fused(at(z_), at(of.slope), d) : d));
    });
  }

  static constexpr Row zeros_ = {};

  const MvnGradPlan& plan_;
  const Operands& operands_;
  const GradColumns& layout_;
  const GatheredColumns places_;
  const double *x_, *grad_;
  double* dx_;
  bool is_passing_, has_product_;
  ColumnSpan span_;
  GradOffsets origin_;
  ColumnConstants<kGradColumns, double> columns_;
  alignas(64) Row sums_[4], z_, h_, gathered_[3];
};

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
