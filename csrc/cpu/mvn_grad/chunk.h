// A stretch of a cell, gathered into rows of the computing type and taken down from grad to w.
#pragma once

#include <algorithm>

#include "cpu/mvn/walk.h"
#include "cpu/mvn_grad/cell.h"
#include "cpu/mvn_grad/passed.h"
#include "cpu/mvn_grad/totals.h"
#include "math/slope.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

/// Elements of a chunk: its rows stay in the first-level cache.
constexpr int64_t kGradChunk = 1024;

/// One thread's rows. They begin at different places of a page.
template <class A>
struct GradRows {
  static constexpr int64_t kLength = kGradChunk + 64 / int64_t(sizeof(A));
  alignas(64) A x[kLength], grad[kLength], scale[kLength], bias[kLength], z[kLength], h[kLength],
      w[kLength], dx[kLength];
};

/// Where the rows of a chunk stand: some are those of another step, or the tensors' own.
template <class A>
struct GradChunk {
  GradOffsets cell, at;  // `at` is the first element's
  int64_t first = 0, n = 0;
  bool is_piece = false;  // all along the last dimension
  const A *z = nullptr, *h = nullptr, *w = nullptr;
};

template <class T>
class GradLoader {
 public:
  using A = Acc<T>;

  GradLoader(const MvnGradPlan& plan, const Operands& o)
      : plan_(plan),
        operands_(o),
        x_(static_cast<const T*>(o.inputs[0])),
        grad_(static_cast<const T*>(o.inputs[1])),
        dx_(plan.wants_dx ? static_cast<T*>(o.outputs[0]) : nullptr),
        scale_(o.inputs[2], plan.scale_dtype, &kOne),
        bias_(plan.has_bias ? o.inputs[3] : nullptr, plan.bias_dtype, &kZero),
        axes_(plan.reduced),
        rank_(std::max(plan.reduced_rank, 1)),
        reads_x_(plan.reads_x()),
        reads_v_(reads_input(plan.activation.kind)),
        takes_product_(takes_product(plan)) {}

  /// Elements of a cell from index * kGradChunk on.
  GradChunk<A> chunk(const GradOffsets& cell, int64_t index) const {
    GradChunk<A> c;
    c.cell = c.at = cell;
    c.first = index * kGradChunk;
    c.n = std::min(kGradChunk, plan_.cell_size - c.first);
    const MvnGradAxis& inner = axes_[rank_ - 1];
    if (rank_ == 1) {
      c.is_piece = true;
      if (c.first) c.at.add(inner, c.first);
    } else if (c.first % inner.size + c.n <= inner.size) {
      c.is_piece = true;
      c.at = GradWalk(axes_, rank_, c.first, cell).offsets();
    }
    return c;
  }

  /// x alone.
  const A* load_x(const GradChunk<A>& c, GradRows<A>& rows) const {
    const MvnGradAxis& inner = axes_[rank_ - 1];
    if constexpr (std::is_same_v<T, A>)
      if (c.is_piece && inner.x == 1) return x_ + c.at.x;
    for_pieces(c, [&](const GradOffsets& at, int64_t to, int64_t n) {
      load_row<T>(rows.x + to, x_ + at.x, inner.x, n);
    });
    return rows.x;
  }

  /// z, h and w of a chunk; `x` is what load_x returned, if it is needed.
  void evaluate(GradChunk<A>& c, const A* x, const CellState<A>& state, GradRows<A>& rows) const {
    const A* grad = rows.grad;
    load_operands(c, rows);
    if constexpr (std::is_same_v<T, A>)
      if (has_grad_row(c)) grad = grad_ + c.at.grad;
    const A* const scale =
        has_scale_row(c) ? scale_.row(c.at.scale, 1, c.n, rows.scale) : rows.scale;
    c.z = rows.z;
    if (reads_x_) normalize(rows.z, x, c.n, state.normal);
    c.h = grad;
    if (plan_.activation.kind != ActivationKind::identity) {
      const int64_t n = c.n;
      if (reads_v_)
        for (int64_t i = 0; i < n; ++i) rows.h[i] = fused(scale[i], rows.z[i], rows.bias[i]);
      pass_row(plan_.activation, rows.h, grad, rows.h, c.n);
      c.h = rows.h;
    }
    c.w = c.h;
    if (!plan_.has_scale) return;
    const A* const h = c.h;
    A* const w = rows.w;
    const int64_t n = c.n;
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) w[i] = h[i] * scale[i];
    c.w = w;
  }

  void write_dx(const GradChunk<A>& c, const CellState<A>& state, GradRows<A>& rows) const {
    const A factor = state.normal.factor, mean = state.mean_w, slope = -state.mean_wz;
    const MvnGradAxis& inner = axes_[rank_ - 1];
    A* row = rows.dx;
    if constexpr (std::is_same_v<T, A>)
      if (c.is_piece && inner.dx == 1) row = dx_ + c.at.dx;
    const A *const z = c.z, *const w = c.w;
    const int64_t n = c.n;
    if (takes_product_)
#pragma GCC ivdep
      for (int64_t i = 0; i < n; ++i) row[i] = factor * fused(z[i], slope, w[i] - mean);
    else
#pragma GCC ivdep
      for (int64_t i = 0; i < n; ++i) row[i] = factor * (w[i] - mean);
    if (row != rows.dx) return;
    for_pieces(c, [&](const GradOffsets& at, int64_t from, int64_t n) {
      store_row<T>(dx_ + at.dx, inner.dx, row + from, n);
    });
  }

  /// Adds the chunk to the totals of a share.
  void add_totals(const GradChunk<A>& c, const Totals<A>& totals, int64_t share) const {
    for (int k = 0; k < 2; ++k) {
      if (!totals.is_wanted(k)) continue;
      const A* const z = k == 0 ? c.z : nullptr;
      const int64_t stride = axes_[rank_ - 1].totals[k];
      for_pieces(c, [&](const GradOffsets& at, int64_t from, int64_t n) {
        totals.add(share, k, at.totals[k], stride, c.h + from, z ? z + from : nullptr, n);
      });
    }
    totals.count_row(share, c.n);
  }

 private:
  template <class Fn>
  void for_pieces(const GradChunk<A>& c, const Fn& fn) const {
    if (c.is_piece) return fn(c.at, 0, c.n);
    for_axis_pieces(axes_, rank_, c.cell, c.first, c.n, fn);
  }

  /// Packs grad where it is not a row already, scale and bias where they are needed.
  void load_operands(const GradChunk<A>& c, GradRows<A>& rows) const {
    const MvnGradAxis& inner = axes_[rank_ - 1];
    for_pieces(c, [&](const GradOffsets& at, int64_t to, int64_t n) {
      if (!has_grad_row(c)) load_row<T>(rows.grad + to, grad_ + at.grad, inner.grad, n);
      if ((plan_.has_scale || reads_v_) && !has_scale_row(c))
        fill(scale_, at.scale, inner.scale, n, rows.scale + to);
      if (reads_v_) fill(bias_, at.bias, inner.bias, n, rows.bias + to);
    });
  }

  /// Whether grad or scale is a row of the computing type where it stands.
  bool has_grad_row(const GradChunk<A>& c) const {
    return std::is_same_v<T, A> && c.is_piece && axes_[rank_ - 1].grad == 1;
  }
  bool has_scale_row(const GradChunk<A>& c) const {
    return c.is_piece && scale_.is_wide && axes_[rank_ - 1].scale == 1;
  }

  static void fill(const Parameter<T>& p, int64_t at, int64_t stride, int64_t n, A* row) {
    if (stride)
      p.copy(at, stride, n, row);
    else
      std::fill_n(row, n, p.at(at));
  }

  static void normalize(A* z, const A* x, int64_t n, const Normalizer<A> normal) {
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) z[i] = normal(x[i]);
  }

  static constexpr A kOne = 1, kZero = 0;

  const MvnGradPlan& plan_;
  const Operands& operands_;
  const T *x_, *grad_;
  T* dx_;
  Parameter<T> scale_, bias_;
  const MvnGradAxis* axes_;
  int rank_;
  bool reads_x_, reads_v_, takes_product_;
};

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
