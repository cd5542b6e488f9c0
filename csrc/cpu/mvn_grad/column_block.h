// Some columns side by side: what belongs to each of them, and what is done with a row.
#pragma once

#include <algorithm>

#include "cpu/mvn/walk.h"
#include "cpu/mvn_grad/cell.h"
#include "cpu/mvn_grad/column_layout.h"
#include "cpu/mvn_grad/passed.h"
#include "cpu/mvn_grad/totals.h"
#include "math/slope.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

constexpr int64_t kGradColumns = 512;

template <class T>
class ColumnBlock {
 public:
  using A = Acc<T>;

  /// Columns [first, first + n) of the rows at position `outer` of the kept dimensions outside.
  ColumnBlock(const MvnGradPlan& plan, const Operands& o, const GradColumns& layout,
              const CellState<A>* states, int64_t outer, int64_t first, int64_t n)
      : plan_(&plan),
        layout_(&layout),
        x_(static_cast<const T*>(o.inputs[0])),
        grad_(static_cast<const T*>(o.inputs[1])),
        dx_(plan.wants_dx ? static_cast<T*>(o.outputs[0]) : nullptr),
        n_(n),
        reads_x_(plan.reads_x()),
        reads_v_(reads_input(plan.activation.kind)),
        takes_product_(takes_product(plan)) {
    const Parameter<T> scale(o.inputs[2], plan.scale_dtype, &kOne);
    const Parameter<T> bias(plan.has_bias ? o.inputs[3] : nullptr, plan.bias_dtype, &kZero);
    const GradOffsets origin = GradWalk(plan.kept, layout.outer_rank, outer).offsets();
    const CellState<A>* const own = states + outer * layout.kept.size;
    for (int64_t c = 0; c < n; ++c) {
      GradOffsets at = layout.at(first + c);
      at.add(origin);
      const CellState<A>& state = own[(first + c) / layout.fold];
      pivot_[c] = state.normal.pivot;
      delta_[c] = state.normal.delta;
      factor_[c] = state.normal.factor;
      mean_w_[c] = state.mean_w;
      mean_wz_[c] = -state.mean_wz;
      scale_[c] = scale.at(at.scale);
      bias_[c] = bias.at(plan.has_bias ? at.bias : 0);
    }
    clear();
  }

  /// Adds x - pivot and its square.
  void add_moments(const GradOffsets& at) {
    const A* const x = row_of(x_ + at.x, x_row_);
#pragma GCC ivdep
    for (int64_t c = 0; c < n_; ++c) {
      const A d = x[c] - pivot_[c];
      first_[c] += d;
      second_[c] = fused(d, d, second_[c]);
    }
    count_row();
  }

  /// Adds w and w * z.
  void add_products(const GradOffsets& at) {
    const A* const h = evaluate(at);
    if (plan_->has_scale)
#pragma GCC ivdep
      for (int64_t c = 0; c < n_; ++c) add(c, h[c] * scale_[c], h[c] * scale_[c] * z_[c]);
    else
#pragma GCC ivdep
      for (int64_t c = 0; c < n_; ++c) add(c, h[c], h[c] * z_[c]);
    count_row();
  }

  /// Writes dx of a row, and adds h * z and h, or w and w * z, for the totals.
  void finish_row(const GradOffsets& at) {
    const A* const h = evaluate(at);
    const A* w = h;
    if (plan_->has_scale) {
#pragma GCC ivdep
      for (int64_t c = 0; c < n_; ++c) w_[c] = h[c] * scale_[c];
      w = w_;
    }
    if (plan_->kind == MvnGradKind::sums) {
#pragma GCC ivdep
      for (int64_t c = 0; c < n_; ++c) add(c, w[c], w[c] * z_[c]);
      count_row();
    } else if (plan_->has_totals()) {
#pragma GCC ivdep
      for (int64_t c = 0; c < n_; ++c) add(c, h[c] * z_[c], h[c]);
      count_row();
    }
    if (!dx_) return;
    T* const dx = dx_ + at.dx;
    A* result = w_;
    if constexpr (std::is_same_v<T, A>) result = dx;
    if (takes_product_)
#pragma GCC ivdep
      for (int64_t c = 0; c < n_; ++c)
        result[c] = factor_[c] * fused(z_[c], mean_wz_[c], w[c] - mean_w_[c]);
    else
#pragma GCC ivdep
      for (int64_t c = 0; c < n_; ++c) result[c] = factor_[c] * (w[c] - mean_w_[c]);
    if constexpr (!std::is_same_v<T, A>) store_row<T>(dx, 1, w_, n_);
  }

  /// Hands the two sums of each column over.
  void take_sums(double* first, double* second) {
    flush();
    std::copy_n(first_sum_, n_, first);
    std::copy_n(second_sum_, n_, second);
  }

  /// Adds the columns' sums to a share's totals; `origin` is the rows', `begin` the first column.
  void add_totals(const Totals<A>& totals, int64_t share, const GradOffsets& origin,
                  int64_t begin) {
    flush();
    for (int k = 0; k < 2; ++k) {
      if (!totals.is_wanted(k)) continue;
      const double* const sums = k == 0 ? first_sum_ : second_sum_;
      for (int64_t c = 0; c < n_; ++c)
        totals.add_one(share, k, origin.totals[k] + layout_->at(begin + c).totals[k], sums[c]);
    }
  }

 private:
  static constexpr int64_t kMostRows = 64;  // added in the computing type
  static constexpr A kOne = 1, kZero = 0;

  void clear() {
    std::fill_n(first_, n_, A(0));
    std::fill_n(second_, n_, A(0));
    std::fill_n(first_sum_, n_, 0.0);
    std::fill_n(second_sum_, n_, 0.0);
  }

  static const A* row_of(const T* from, A* buffer, int64_t n) {
    if constexpr (std::is_same_v<T, A>) return from;
    load_row<T>(buffer, from, 1, n);
    return buffer;
  }
  const A* row_of(const T* from, A* buffer) const { return row_of(from, buffer, n_); }

  /// z of a row, and its h.
  const A* evaluate(const GradOffsets& at) {
    if (reads_x_) {
      const A* const x = row_of(x_ + at.x, x_row_);
#pragma GCC ivdep
      for (int64_t c = 0; c < n_; ++c) z_[c] = ((x[c] - pivot_[c]) - delta_[c]) * factor_[c];
    }
    const A* const grad = row_of(grad_ + at.grad, grad_row_);
    if (plan_->activation.kind == ActivationKind::identity) return grad;
    if (reads_v_)
#pragma GCC ivdep
      for (int64_t c = 0; c < n_; ++c) h_[c] = fused(scale_[c], z_[c], bias_[c]);
    pass_row(plan_->activation, h_, grad, h_, n_);
    return h_;
  }

  void add(int64_t c, A first, A second) {
    first_[c] += first;
    second_[c] += second;
  }

  void count_row() {
    if (++rows_ == kMostRows) flush();
  }

  void flush() {
#pragma GCC ivdep
    for (int64_t c = 0; c < n_; ++c) first_sum_[c] += double(first_[c]);
#pragma GCC ivdep
    for (int64_t c = 0; c < n_; ++c) second_sum_[c] += double(second_[c]);
    std::fill_n(first_, n_, A(0));
    std::fill_n(second_, n_, A(0));
    rows_ = 0;
  }

  const MvnGradPlan* plan_;
  const GradColumns* layout_;
  const T *x_, *grad_;
  T* dx_;
  int64_t n_, rows_ = 0;
  bool reads_x_, reads_v_, takes_product_;
  static constexpr int64_t kLength = kGradColumns + 64 / int64_t(sizeof(A));
  alignas(64) A pivot_[kLength], delta_[kLength], factor_[kLength], mean_w_[kLength],
      mean_wz_[kLength], scale_[kLength], bias_[kLength], x_row_[kLength], grad_row_[kLength],
      z_[kLength], h_[kLength], w_[kLength], first_[kLength], second_[kLength];
  alignas(64) double first_sum_[kLength], second_sum_[kLength];
};

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
