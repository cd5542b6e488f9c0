// The passes over tiles of columns, whatever their elements are where they stand.
#pragma once

#include <algorithm>

#include "cpu/memory/tuning.h"
#include "cpu/mvn_grad/cell.h"
#include "cpu/mvn_grad/column_sums.h"
#include "cpu/mvn_grad/column_tiles.h"
#include "cpu/mvn_grad/passed.h"
#include "math/slope.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

using tuning::mvn_grad::kMostNarrow;

/// Columns of a block of floats at most.
constexpr int64_t kBlockColumns =
    kHasLineVectors ? tuning::mvn_grad::kGradColumns : tuning::mvn_grad::kLongGradColumns;

/// What a pass over the rows is for.
struct ColumnWork {
  bool moments = false;   // sums of d and d * d
  bool products = false;  // sums of h and h * z; with moments, of h and h * d
  bool writes = false;    // dx
  bool is_kept = false;   // h stays where dx will be, or stands there if that is written
};

/// Columns [first, first + n) of the rows at a position of the kept dimensions outside.
struct ColumnSpan {
  int64_t outer = -1, first = 0, n = 0;

  bool operator==(const ColumnSpan&) const = default;
};

/// What belongs to the columns of a span, zeros behind them.
template <int64_t kCount, class A>
[[gnu::noinline]] void set_constants(const MvnGradPlan& plan, const Operands& o,
                                     const GradColumns& layout, const ColumnSpan& span,
                                     const GradOffsets& origin, const ColumnStates<A>& states,
                                     ColumnConstants<kCount, A>& to) {
  const int64_t first = span.outer * layout.kept.size;
  const auto set = [&](const A* from, A* row) {
    if (layout.fold == 1)
      return layout.for_runs(span.first, span.n, [&](int64_t c, int64_t count, int64_t i) {
        std::copy_n(from + i, count, row + c);
      });
    layout.for_cells(span.first, span.n, [&](int64_t c, int64_t count, int64_t i, int64_t) {
      fill_beyond(row + c, count, from[i]);
    });
  };
  set(states.pivots + first, to.pivot);
  set(states.deltas + first, to.delta);
  set(states.factors + first, to.factor);
  set(states.means_w + first, to.shift);
  set(states.means_wz + first, to.slope);
  for (A* row : {to.shift, to.slope})
    for (int64_t c = 0; c < span.n; c += kLanes<A>)
      store_vector(row + c, -load_vector<Vector<A>>(row + c));
  read_scales(plan, o, layout, origin, span.first, span.n, to.scale);
  std::fill_n(to.bias, span.n, A(0));
  if (plan.has_bias)
    read_columns(o.inputs[3], plan.bias_dtype, layout, &MvnGradAxis::bias, origin.bias, span.first,
                 span.n, to.bias);
  for (A* row : {to.pivot, to.delta, to.factor, to.shift, to.slope, to.scale, to.bias})
    std::fill_n(row + span.n, kTileColumns, A(0));
}

/// Tiles [first, last) of n rows, which are counted from column `origin`.
template <class X, class G, class D>
struct TilePart {
  TileRows<const X> x;
  TileRows<const G> grad;
  TileRows<D> dx;
  int64_t n, first, last, origin;
};

/// The columns of a block with their constants and sums, and what is done with tiles of them. Types
/// are those of the tiles alone: blocks of all types share the loops over floats.
class ColumnPasses {
 public:
  explicit ColumnPasses(const MvnGradPlan& plan)
      : plan_(plan),
        is_passing_(!reads_input(plan.activation.kind)),
        has_gate_(Gate<float>::suits(plan.activation)),
        is_swish_(SwishPass::suits(plan.activation)),
        has_product_(takes_product(plan)) {}

  const ColumnSpan& span() const { return span_; }

  void clear() {
    std::fill_n(&moments_[0], tiles_, TileSums{});
    std::fill_n(&products_[0], tiles_, TileSums{});
  }

  /// Hands the sums of each column over: those of the moments, and those of the products.
  void take_sums(const ColumnWork& work, double* const (&to)[4]) const {
    for (int64_t k = tiles_ - 1; k >= 0; --k) {
      const int64_t c = begin_of(k), n = std::min(tile_columns_, span_.n);
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

 protected:
  /// The last tile ends with the columns, so some columns may be in two.
  int64_t begin_of(int64_t k) const {
    return std::max<int64_t>(0, std::min(k * tile_columns_, span_.n - tile_columns_));
  }

  /// What is asked for of some tiles.
  template <class X, class G, class D>
  void run_part(const TilePart<X, G, D>& part, const ColumnWork& work) {
    if (work.moments) return add_moments(part, work);
    if constexpr (std::is_same_v<D, float>)
      if (work.writes && work.is_kept)
        return finish(TilePart<X, float, D>{part.x,
                                            {part.dx.base, part.dx.at, part.dx.ahead},
                                            part.dx,
                                            part.n,
                                            part.first,
                                            part.last,
                                            part.origin},
                      Through{}, work);
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
    for_tiles(part, [&]<int kVectors>(int64_t k, int64_t c) {
      const TileConstants constants(constants_, begin_of(k));
      if (work.products)
        add_all<kVectors>(part.x.tile(c), part.grad.tile(c), part.n, constants, moments_[k],
                          products_[k]);
      else
        add_deviations<kVectors>(part.x.tile(c), part.n, constants, moments_[k]);
    });
  }

  template <class X, class G, class D, class Pass>
  [[gnu::noinline]] void finish(const TilePart<X, G, D>& part, const Pass& pass,
                                const ColumnWork& work) {
    for_tiles(part, [&]<int kVectors>(int64_t k, int64_t c) {
      const TileConstants constants(constants_, begin_of(k));
      const TileRows<const X> x = part.x.tile(c);
      const TileRows<const G> grad = part.grad.tile(c);
      const TileRows<D> dx = part.dx.tile(c);
      if (work.products)
        add_products<kVectors>(x, grad, part.n, constants, pass, products_[k],
                               work.is_kept ? dx : TileRows<D>{});
      if (!work.writes) return;
      const bool is_streamed = are_lines_ && reinterpret_cast<uintptr_t>(dx.base) % 64 == 0;
      write_tile<kVectors>(x, grad, dx, part.n, constants, pass, {has_product_, is_streamed});
    });
  }

  /// Calls fn.operator()<vectors>(k, column) for each tile k, or for it and the next one, which
  /// begin so many columns after the part's.
  template <class X, class G, class D, class Fn>
  void for_tiles(const TilePart<X, G, D>& part, const Fn& fn) const {
    for (int64_t k = part.first; k < part.last;) {
      const int64_t c = begin_of(k);
      if constexpr (kHasLineVectors)
        if (tile_columns_ == kFloats) {
          fn.template operator()<1>(k++, c - part.origin);
          continue;
        }
      if constexpr (kMostTileVectors > kTileVectors)
        if (are_paired_ && k + 1 < part.last && begin_of(k + 1) == c + kTileColumns) {
          fn.template operator()<kMostTileVectors>(k, c - part.origin);
          k += 2;
          continue;
        }
      fn.template operator()<kTileVectors>(k++, c - part.origin);
    }
  }

  /// Whether rows of so many bytes are lines of which a tile takes one of each in turn.
  template <class T>
  bool is_turned(int64_t row_bytes) const {
    return kHasLineVectors && is_passing_ && row_bytes % 64 == 0 &&
           row_bytes >= tuning::mvn_grad::kLeastTurnedBytes<T>;
  }

  /// Columns of a tile, of n: those of one vector where fewer are then empty, or, as far as
  /// computing takes longer than reading, taken twice, and of floats whose rows take turns: memory
  /// is read as it lies. Only loops over tiles where they stand take such ones.
  int64_t tile_columns_of(int64_t n, bool is_half) const {
    const int64_t rest = n % kTileColumns;
    const bool may_be = kHasLineVectors && (is_passing_ || is_swish_ || has_gate_);
    const bool are_many = n >= kTileColumns, is_computed = is_half || !is_passing_;
    if (!may_be || n < kFloats) return kTileColumns;
    if (!is_half && is_turned<float>(n * int64_t(sizeof(float)))) return kFloats;
    if (n > kMostNarrow) return kTileColumns;
    return !are_many || (is_computed && 0 < rest && rest <= kFloats) ? kFloats : kTileColumns;
  }

  static constexpr int64_t kMostTiles = kBlockColumns / (kHasLineVectors ? kFloats : kTileColumns);

  const MvnGradPlan& plan_;
  bool is_passing_, has_gate_, is_swish_, has_product_;
  bool are_lines_ = false;
  bool are_paired_ = false;  // tiles, as far as there are two
  int64_t tiles_ = 0, tile_columns_ = kTileColumns;
  ColumnSpan span_;
  ColumnConstants<kBlockColumns> constants_;
  TileSums moments_[kMostTiles], products_[kMostTiles];
  using Buffer = float[kStripRows * kTileColumns];
  alignas(64) Buffer v_, passing_;
};

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
