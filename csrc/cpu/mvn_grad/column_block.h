// Some columns side by side: what belongs to each of them, and what is done with strips of rows.
#pragma once

#include <algorithm>

#include "cpu/mvn_grad/cell.h"
#include "cpu/mvn_grad/column_sums.h"
#include "cpu/mvn_grad/column_tiles.h"
#include "cpu/mvn_grad/passed.h"
#include "cpu/threads/parallel.h"
#include "math/slope.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

constexpr int64_t kGradColumns = 512;

/// Where the rows of a strip stand, in elements from a place in each tensor.
struct StripRows {
  int64_t n = 0;
  alignas(64) int64_t x[kStripRows], grad[kStripRows], dx[kStripRows];
  int64_t x_ahead, grad_ahead;  // from its rows to those of the next strip, or 0
};

/// What a pass over the rows is for.
struct ColumnWork {
  bool moments = false;   // sums of d and d * d
  bool products = false;  // sums of h and h * z; with moments, of h and h * d
  bool writes = false;    // dx
};

/// Columns [first, first + n) of the rows at a position of the kept dimensions outside.
struct ColumnSpan {
  int64_t outer = -1, first = 0, n = 0;

  bool operator==(const ColumnSpan&) const = default;
};

/// What belongs to the columns of a span, zeros behind them.
[[gnu::noinline]] inline void set_constants(const MvnGradPlan& plan, const Operands& o,
                                            const GradColumns& layout, const ColumnSpan& span,
                                            const GradOffsets& origin,
                                            const CellState<float>* states,
                                            ColumnConstants<kGradColumns>& to) {
  const CellState<float>* const own = states + span.outer * layout.kept.size;
  int64_t cell = span.first / layout.fold, f = span.first % layout.fold;
  for (int64_t c = 0; c < span.n; ++c) {
    const CellState<float>& state = own[cell];
    to.pivot[c] = state.normal.pivot;
    to.delta[c] = state.normal.delta;
    to.factor[c] = state.normal.factor;
    to.shift[c] = -state.mean_w;
    to.slope[c] = -state.mean_wz;
    to.scale[c] = static_cast<float>(column_scale(plan, o, layout, origin, span.first + c));
    const int64_t at = origin.bias + cell * layout.kept.bias + f * layout.folded.bias;
    to.bias[c] = plan.has_bias ? float(read_wide(o.inputs[3], plan.bias_dtype, at)) : 0;
    if (++f == layout.fold) f = 0, ++cell;
  }
  for (float* row : {to.pivot, to.delta, to.factor, to.shift, to.slope, to.scale, to.bias})
    std::fill_n(row + span.n, kTileColumns, 0.0f);
}

template <class T>
class ColumnBlock {
 public:
  ColumnBlock(const MvnGradPlan& plan, const Operands& o, const GradColumns& layout)
      : plan_(plan),
        operands_(o),
        layout_(layout),
        x_(plan.reads_x() ? static_cast<const T*>(o.inputs[0]) : nullptr),
        grad_(static_cast<const T*>(o.inputs[1])),
        dx_(plan.wants_dx ? static_cast<T*>(o.outputs[0]) : nullptr),
        is_passing_(!reads_input(plan.activation.kind)),
        has_gate_(Gate<float>::suits(plan.activation)),
        is_swish_(SwishPass::suits(plan.activation)),
        has_product_(takes_product(plan)),
        is_streamed_(kTileColumns * int64_t(sizeof(T)) % 64 == 0 &&
                     is_norm_streamed(plan.compulsory_bytes() / 2)) {}

  /// Turns to other columns; `states` are those of all cells.
  void begin(const ColumnSpan& span, const CellState<float>* states) {
    span_ = span;
    origin_ = GradWalk(plan_.kept, layout_.outer_rank, span.outer).offsets();
    set_constants(plan_, operands_, layout_, span, origin_, states, constants_);
    tiles_ = (span.n + kTileColumns - 1) / kTileColumns;
    is_narrow_ = span.n < kTileColumns;
  }
  const ColumnSpan& span() const { return span_; }

  void clear() {
    std::fill_n(&moments_[0], tiles_, TileSums{});
    std::fill_n(&products_[0], tiles_, TileSums{});
  }

  /// Rows [first, first + n) of all.
  void run(int64_t first, int64_t n, const ColumnWork& work) {
    const GradOffsets at = set_rows(first, n);
    for (int64_t k = 0; k < tiles_; ++k) {
      const int64_t c = begin_of(k);
      const TileRows<const T> grad{grad_ + at.grad + c, rows_.grad, {rows_.grad_ahead}};
      const TileRows<T> dx{dx_ ? dx_ + at.dx + c : nullptr, rows_.dx, {0}};
      TileRows<const T> x{zeros_, kBufferRows.none, {0}};
      if (x_) x = {x_ + at.x + c, rows_.x, {rows_.x_ahead}};
      if (kIsWidened || is_narrow_)
        run_widened(k, x, grad, dx, work);
      else if constexpr (!kIsWidened)
        run_tile(k, x, grad, dx, work);
    }
  }

  /// Hands the sums of each column over: those of the moments, and those of the products.
  void take_sums(const ColumnWork& work, double* const (&to)[4]) const {
    for (int64_t k = tiles_ - 1; k >= 0; --k) {
      const int64_t c = begin_of(k), n = std::min(kTileColumns, span_.n);
      if (work.moments) {
        std::copy_n(moments_[k].first, n, to[0] + c);
        std::copy_n(moments_[k].second, n, to[1] + c);
      }
      if (work.products) {
        std::copy_n(products_[k].first, n, to[2] + c);
        std::copy_n(products_[k].second, n, to[3] + c);
      }
    }
  }

 private:
  static constexpr int64_t kMostTiles = kGradColumns / kTileColumns;
  static constexpr bool kIsWidened = kIsKeptSmall && sizeof(T) < sizeof(float);
  static constexpr T zeros_[kTileColumns] = {};

  /// The last tile ends with the columns, so some columns may be in two.
  int64_t begin_of(int64_t k) const {
    return std::max<int64_t>(0, std::min(k * kTileColumns, span_.n - kTileColumns));
  }

  /// Returns the place that rows [first, first + n) are counted from. Along one dimension that is
  /// the first of them, and the rest stays from strip to strip.
  GradOffsets set_rows(int64_t first, int64_t n) {
    const MvnGradAxis& inner = plan_.reduced[layout_.row_rank - 1];
    GradOffsets at = origin_;
    at.add(layout_.at(span_.first));
    const bool is_even = layout_.row_rank == 1;
    if (is_even) at.add(inner, first);
    if (!is_even || rows_.n == 0) place_rows(is_even ? 0 : first, is_even ? kStripRows : n, inner);
    rows_.n = n;
    return at;
  }

  [[gnu::noinline]] void place_rows(int64_t first, int64_t n, const MvnGradAxis& inner) {
    for_axis_pieces(plan_.reduced, layout_.row_rank, GradOffsets{}, first, n,
                    [&](const GradOffsets& o, int64_t done, int64_t length) {
                      for (int64_t i = 0; i < length; ++i) {
                        rows_.x[done + i] = o.x + i * inner.x;
                        rows_.grad[done + i] = o.grad + i * inner.grad;
                        rows_.dx[done + i] = o.dx + i * inner.dx;
                      }
                    });
    const int64_t ahead = layout_.row_rank == 1 ? kStripRows : 0;
    rows_.x_ahead = ahead * inner.x;
    rows_.grad_ahead = ahead * inner.grad;
    int64_t bits = 0;
    for (int64_t r = 0; r < n; ++r) bits |= rows_.dx[r];
    are_lines_ = is_streamed_ && bits * int64_t(sizeof(T)) % 64 == 0;
  }

  /// What is asked for of a tile.
  template <class X, class G, class D>
  void run_tile(int64_t k, const TileRows<const X>& x, const TileRows<const G>& grad,
                const TileRows<D>& dx, const ColumnWork& work) {
    const TileConstants c(constants_, begin_of(k));
    if (work.moments)
      return work.products ? add_all(x, grad, rows_.n, c, moments_[k], products_[k])
                           : add_deviations(x, rows_.n, c, moments_[k]);
    const Activation& f = plan_.activation;
    if (is_passing_) return finish(k, c, x, grad, dx, Through{}, work);
    if (is_swish_) return finish(k, c, x, grad, dx, SwishPass(f, 0, 0), work);
    if (has_gate_) return finish(k, c, x, grad, dx, Gate<float>(f, 0, 0), work);
    widen_tile(x, grad, rows_.n, c, v_, passing_);
    pass_row(f, v_, passing_, v_, rows_.n * kTileColumns);
    finish(k, c, x, TileRows<const float>{v_, kBufferRows.at, {0}}, dx, Through{}, work);
  }

  template <class X, class G, class D, class Pass>
  [[gnu::always_inline]] void finish(int64_t k, const TileConstants& c, const TileRows<const X>& x,
                                     const TileRows<const G>& grad, const TileRows<D>& dx,
                                     const Pass& pass, const ColumnWork& work) {
    if (work.products) add_products(x, grad, rows_.n, c, pass, products_[k]);
    if (!work.writes) return;
    const bool is_streamed = are_lines_ && reinterpret_cast<uintptr_t>(dx.base) % 64 == 0;
    write_tile(x, grad, dx, rows_.n, c, pass, {has_product_, is_streamed});
  }

  /// The same by way of floats; zeros complete columns that do not fill a tile.
  [[gnu::noinline]] void run_widened(int64_t k, const TileRows<const T>& x,
                                     const TileRows<const T>& grad, const TileRows<T>& dx,
                                     const ColumnWork& work) {
    copy_in(x, wide_x_);
    copy_in(grad, wide_grad_);
    const bool are_lines = std::exchange(are_lines_, false);
    run_tile(k, TileRows<const float>{wide_x_, kBufferRows.at, {0}},
             TileRows<const float>{wide_grad_, kBufferRows.at, {0}},
             TileRows<float>{wide_dx_, kBufferRows.at, {0}}, work);
    are_lines_ = are_lines;
    if (!work.writes) return;
    for (int64_t r = 0; r < rows_.n; ++r)
      for (int64_t c = 0; c < std::min(span_.n, kTileColumns); c += kFloats)
        with_lanes(span_.n - c, [&](auto m) {
          store_narrow(dx[r] + c, load_wide(wide_dx_ + r * kTileColumns + c, Whole{}), m);
        });
  }

  void copy_in(const TileRows<const T>& from, float* to) const {
    for (int64_t r = 0; r < rows_.n; ++r)
      for (int64_t c = 0; c < kTileColumns; c += kFloats) {
        Floats v{};
        if (c < span_.n) with_lanes(span_.n - c, [&](auto m) { v = load_wide(from[r] + c, m); });
        store_vector(to + r * kTileColumns + c, v);
      }
  }

  const MvnGradPlan& plan_;
  const Operands& operands_;
  const GradColumns& layout_;
  const T *x_, *grad_;
  T* dx_;
  bool is_passing_, has_gate_, is_swish_, has_product_, is_streamed_;
  bool is_narrow_ = false, are_lines_ = false;
  int64_t tiles_ = 0;
  ColumnSpan span_;
  GradOffsets origin_;
  StripRows rows_;
  ColumnConstants<kGradColumns> constants_;
  TileSums moments_[kMostTiles], products_[kMostTiles];
  using Buffer = float[kStripRows * kTileColumns];
  alignas(64) Buffer v_, passing_, wide_x_, wide_grad_, wide_dx_;
};

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
