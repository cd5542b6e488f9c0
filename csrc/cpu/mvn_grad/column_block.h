// Some columns side by side: what belongs to each of them, and what is done with strips of rows.
#pragma once

#include <algorithm>

#include "cpu/memory/tuning.h"
#include "cpu/mvn_grad/cell.h"
#include "cpu/mvn_grad/column_sums.h"
#include "cpu/mvn_grad/column_tiles.h"
#include "cpu/mvn_grad/passed.h"
#include "cpu/threads/parallel.h"
#include "math/slope.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

using tuning::mvn_grad::kGradColumns;
using tuning::mvn_grad::kLeastTurn;
using tuning::mvn_grad::kTurnBytes;

using tuning::mvn_grad::kFightingTurn;
using tuning::mvn_grad::kWayBytes;

/// Rows of so many bytes that all tiles take in turn; where gradients do not pass as they are
/// computing takes longer than reading, unless rows fight.
inline int64_t turn_of(int64_t row_bytes, bool is_passing) {
  if (kHasLineVectors) return kStripRows;
  if (is_passing) return std::clamp(kTurnBytes / row_bytes, kLeastTurn, kStripRows);
  return row_bytes % kWayBytes == 0 ? kFightingTurn : kStripRows;
}

/// Where the rows of a strip stand, in elements from a place in each tensor.
struct StripRows {
  int64_t n = 0;
  alignas(64) int64_t x[kStripRows], grad[kStripRows], dx[kStripRows];
  int64_t x_step, grad_step;  // from each row to the next, or 0
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

/// Tiles [first, last) of n rows, which are counted from column `origin`.
template <class X, class G, class D>
struct TilePart {
  TileRows<const X> x;
  TileRows<const G> grad;
  TileRows<D> dx;
  int64_t n, first, last, origin;
};

/// Packs n rows of a tile as floats, zeros behind its columns.
template <class T>
[[gnu::noinline]] void widen_columns(TileRows<const T> from, int64_t n, int64_t columns,
                                     float* to) {
  for (int64_t r = 0; r < n; ++r)
    for (int64_t c = 0; c < kTileColumns; c += kFloats) {
      Floats v{};
      if (c < columns) with_lanes(columns - c, [&](auto m) { v = load_wide(from[r] + c, m); });
      store_vector(to + r * kTileColumns + c, v);
    }
}

/// The way back: writes those columns.
template <class T>
[[gnu::noinline]] void narrow_columns(const float* from, int64_t n, int64_t columns,
                                      TileRows<T> to) {
  for (int64_t r = 0; r < n; ++r)
    for (int64_t c = 0; c < std::min(columns, kTileColumns); c += kFloats)
      with_lanes(columns - c, [&](auto m) {
        store_narrow(to[r] + c, load_wide(from + r * kTileColumns + c, Whole{}), m);
      });
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
    // A tile may be all there is of a row.
    turn_ =
        kIsWidened || is_narrow_ ? kStripRows : turn_of(span.n * int64_t(sizeof(T)), is_passing_);
  }
  const ColumnSpan& span() const { return span_; }

  void clear() {
    std::fill_n(&moments_[0], tiles_, TileSums{});
    std::fill_n(&products_[0], tiles_, TileSums{});
  }

  /// Rows [first, first + n) of all: a strip.
  void run(int64_t first, int64_t n, const ColumnWork& work) {
    const GradOffsets at = set_rows(first, n);
    for (int64_t r = 0; r < n; r += turn_) run_rows(at, r, std::min(turn_, n - r), work);
    for (int64_t k = 0; k < tiles_; ++k) {
      if (work.moments) moments_[k].settle();
      if (work.products) products_[k].settle();
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
  static constexpr T zeros_[kGradColumns] = {};

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
    const bool is_even = layout_.row_rank == 1;
    rows_.x_step = is_even ? inner.x : 0;
    rows_.grad_step = is_even ? inner.grad : 0;
    int64_t bits = 0;
    for (int64_t r = 0; r < n; ++r) bits |= rows_.dx[r];
    are_lines_ = is_streamed_ && bits * int64_t(sizeof(T)) % 64 == 0;
  }

  /// Rows [r, r + n) of a strip.
  void run_rows(const GradOffsets& at, int64_t r, int64_t n, const ColumnWork& work) {
    const int64_t ahead = std::min(2 * turn_, kStripRows);
    TilePart<T, T, T> part{{zeros_, kBufferRows.none, 0},
                           {grad_ + at.grad, rows_.grad + r, ahead * rows_.grad_step},
                           {dx_ ? dx_ + at.dx : nullptr, rows_.dx + r, 0},
                           n,
                           0,
                           tiles_,
                           0};
    if (x_) part.x = {x_ + at.x, rows_.x + r, ahead * rows_.x_step};
    if constexpr (!kIsWidened)
      if (!is_narrow_) return run_part(part, work);
    for (int64_t k = 0; k < tiles_; ++k) run_widened(part, k, work);
  }

  /// What is asked for of some tiles.
  template <class X, class G, class D>
  void run_part(const TilePart<X, G, D>& part, const ColumnWork& work) {
    if (work.moments) return add_moments(part, work);
    const Activation& f = plan_.activation;
    if (is_passing_) return finish(part, Through{}, work);
    if (is_swish_) return finish(part, SwishPass(f, 0, 0), work);
    if (has_gate_) return finish(part, Gate<float>(f, 0, 0), work);
    for (int64_t k = part.first; k < part.last; ++k) {
      const int64_t origin = begin_of(k), c = origin - part.origin;
      widen_tile(part.x.tile(c), part.grad.tile(c), part.n, TileConstants(constants_, origin), v_,
                 passing_);
      pass_row(f, v_, passing_, v_, part.n * kTileColumns);
      finish(
          TilePart<X, float, D>{
              part.x.tile(c), {v_, kBufferRows.at, 0}, part.dx.tile(c), part.n, k, k + 1, origin},
          Through{}, work);
    }
  }

  template <class X, class D>
  [[gnu::noinline]] void add_moments(const TilePart<X, X, D>& part, const ColumnWork& work) {
    for (int64_t k = part.first; k < part.last; ++k) {
      const int64_t c = begin_of(k) - part.origin;
      const TileConstants constants(constants_, begin_of(k));
      if (work.products)
        add_all(part.x.tile(c), part.grad.tile(c), part.n, constants, moments_[k], products_[k]);
      else
        add_deviations(part.x.tile(c), part.n, constants, moments_[k]);
    }
  }

  template <class X, class G, class D, class Pass>
  [[gnu::noinline]] void finish(const TilePart<X, G, D>& part, const Pass& pass,
                                const ColumnWork& work) {
    for (int64_t k = part.first; k < part.last; ++k) {
      const int64_t c = begin_of(k) - part.origin;
      const TileConstants constants(constants_, begin_of(k));
      const TileRows<const X> x = part.x.tile(c);
      const TileRows<const G> grad = part.grad.tile(c);
      if (work.products) add_products(x, grad, part.n, constants, pass, products_[k]);
      if (!work.writes) continue;
      const TileRows<D> dx = part.dx.tile(c);
      const bool is_streamed = are_lines_ && reinterpret_cast<uintptr_t>(dx.base) % 64 == 0;
      write_tile(x, grad, dx, part.n, constants, pass, {has_product_, is_streamed});
    }
  }

  /// Tile k by way of floats; zeros complete columns that do not fill it.
  [[gnu::noinline]] void run_widened(const TilePart<T, T, T>& part, int64_t k,
                                     const ColumnWork& work) {
    const int64_t c = begin_of(k);
    widen_columns(part.x.tile(c), part.n, span_.n, wide_x_);
    widen_columns(part.grad.tile(c), part.n, span_.n, wide_grad_);
    const bool are_lines = std::exchange(are_lines_, false);
    run_part(TilePart<float, float, float>{{wide_x_, kBufferRows.at, 0},
                                           {wide_grad_, kBufferRows.at, 0},
                                           {wide_dx_, kBufferRows.at, 0},
                                           part.n,
                                           k,
                                           k + 1,
                                           c},
             work);
    are_lines_ = are_lines;
    if (!work.writes) return;
    narrow_columns(wide_dx_, part.n, span_.n, part.dx.tile(c));
  }

  const MvnGradPlan& plan_;
  const Operands& operands_;
  const GradColumns& layout_;
  const T *x_, *grad_;
  T* dx_;
  bool is_passing_, has_gate_, is_swish_, has_product_, is_streamed_;
  bool is_narrow_ = false, are_lines_ = false;
  int64_t tiles_ = 0, turn_ = kStripRows;
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
