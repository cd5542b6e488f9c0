// Some columns side by side: what belongs to each of them, and what is done with strips of rows.
#pragma once

#include <algorithm>

#include "cpu/memory/tuning.h"
#include "cpu/mvn_grad/column_passes.h"
#include "cpu/threads/parallel.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

using tuning::mvn_grad::kPairedFloats;
using tuning::mvn_grad::kPairedHalves;

/// Where the rows of a strip stand, in elements from a place in each tensor.
struct StripRows {
  int64_t n = 0;
  alignas(64) int64_t x[kStripRows], grad[kStripRows], dx[kStripRows];
  int64_t x_step, grad_step, dx_step;  // from each row to the next, or 0
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

/// Packs n rows of columns that stand at these places of a row, and the way back. `packed` has the
/// length of a tile's rows; nothing is put behind the columns.
template <class T>
[[gnu::noinline]] void gather_columns(TileRows<const T> from, const int64_t* places, int64_t n,
                                      int64_t columns, T* packed) {
  for (int64_t r = 0; r < n; ++r, packed += kTileColumns) {
    const T* const row = from[r];
#pragma GCC unroll 4
    for (int64_t c = 0; c < columns; ++c) packed[c] = row[places[c]];
  }
}

template <class T>
[[gnu::noinline]] void scatter_columns(const T* packed, const int64_t* places, int64_t n,
                                       int64_t columns, TileRows<T> to) {
  for (int64_t r = 0; r < n; ++r, packed += kTileColumns) {
    T* const row = to[r];
#pragma GCC unroll 4
    for (int64_t c = 0; c < columns; ++c) row[places[c]] = packed[c];
  }
}

template <class T>
class ColumnBlock : public ColumnPasses {
 public:
  ColumnBlock(const MvnGradPlan& plan, const Operands& o, const GradColumns& layout)
      : ColumnPasses(plan),
        operands_(o),
        layout_(layout),
        places_(layout, plan.reads_x()),
        x_(plan.reads_x() ? static_cast<const T*>(o.inputs[0]) : nullptr),
        grad_(static_cast<const T*>(o.inputs[1])),
        dx_(plan.wants_dx ? static_cast<T*>(o.outputs[0]) : nullptr),
        is_streamed_(kTileColumns * int64_t(sizeof(T)) % 64 == 0 &&
                     is_norm_streamed(plan.compulsory_bytes() / 2)) {
    if (!layout.is_gathered) return;
    for (Buffer* tile : {&wide_x_, &wide_grad_}) std::fill_n(*tile, std::size(*tile), 0.0f);
  }

  /// Turns to other columns; `states` are those of all cells.
  void begin(const ColumnSpan& span, const ColumnStates<float>& states) {
    span_ = span;
    origin_ = GradWalk(plan_.kept, layout_.outer_rank, span.outer).offsets();
    set_constants(plan_, operands_, layout_, span, origin_, states, constants_);
    tile_columns_ = layout_.is_gathered ? kTileColumns : tile_columns_of(span.n, kIsHalf<T>);
    tiles_ = (span.n + tile_columns_ - 1) / tile_columns_;
    is_widened_ = kIsWidened || span.n < tile_columns_ || layout_.is_gathered;
    are_paired_ = span.n <= (kIsHalf<T> ? kPairedHalves : kPairedFloats);
    // A tile may be all there is of a row.
    turn_ = is_widened_ ? kStripRows : turn_of(span.n * int64_t(sizeof(T)));
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

 private:
  static constexpr bool kIsFloat = std::is_same_v<T, float>;
  static constexpr bool kIsWidened = kIsKeptSmall && sizeof(T) < sizeof(float);
  static constexpr T zeros_[kBlockColumns] = {};

  /// Rows of so many bytes that all tiles take in turn: memory is read nearly as it lies. Where
  /// computing takes longer than reading, tiles do without, unless rows fight.
  int64_t turn_of(int64_t row_bytes) const {
    using namespace tuning::mvn_grad;
    if (kHasLineVectors && is_turned<T>(row_bytes)) return kLineTurn<T>;
    if (kHasLineVectors) return kStripRows;
    if (is_passing_) return std::clamp(kTurnBytes / row_bytes, kLeastTurn, kStripRows);
    return row_bytes % kWayBytes == 0 ? kFightingTurn : kStripRows;
  }

  /// Returns the place that rows [first, first + n) are counted from. Along one dimension that is
  /// the first of them, and the rest stays from strip to strip.
  GradOffsets set_rows(int64_t first, int64_t n) {
    const MvnGradAxis& inner = layout_.reduced[layout_.row_rank - 1];
    GradOffsets at = origin_;
    at.add(layout_.at(span_.first));
    const bool is_even = layout_.row_rank == 1;
    if (is_even) at.add(inner, first);
    if (!is_even || rows_.n == 0) place_rows(is_even ? 0 : first, is_even ? kStripRows : n, inner);
    rows_.n = n;
    return at;
  }

  [[gnu::noinline]] void place_rows(int64_t first, int64_t n, const MvnGradAxis& inner) {
    for_axis_pieces(layout_.reduced, layout_.row_rank, GradOffsets{}, first, n,
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
    rows_.dx_step = is_even ? inner.dx : 0;
    int64_t bits = 0;
    for (int64_t r = 0; r < n; ++r) bits |= rows_.dx[r];
    are_lines_ = is_streamed_ && bits * int64_t(sizeof(T)) % 64 == 0;
  }

  /// Rows [r, r + n) of a strip.
  void run_rows(const GradOffsets& at, int64_t r, int64_t n, const ColumnWork& work) {
    const int64_t ahead = std::min(2 * turn_, kStripRows);
    TilePart<T, T, T> part{{zeros_, kBufferRows.none, 0},
                           {grad_ + at.grad, rows_.grad + r, ahead * rows_.grad_step},
                           {dx_ ? dx_ + at.dx : nullptr, rows_.dx + r, ahead * rows_.dx_step},
                           n,
                           0,
                           tiles_,
                           0};
    if (x_) part.x = {x_ + at.x, rows_.x + r, ahead * rows_.x_step};
    if constexpr (!kIsWidened)
      if (!is_widened_) return run_part(part, work);
    for (int64_t k = 0; k < tiles_; ++k) run_widened(part, k, work);
  }

  /// Tile k by way of floats; zeros complete columns that do not fill it.
  [[gnu::noinline]] void run_widened(const TilePart<T, T, T>& part, int64_t k,
                                     const ColumnWork& work) {
    const int64_t c = begin_of(k);
    read_tile(part.x, places_.x + c, part.n, c, wide_x_);
    read_tile(part.grad, places_.grad + c, part.n, c, wide_grad_);
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
    if (layout_.is_gathered)
      scatter_tile(part.dx, places_.dx + c, part.n);
    else
      narrow_columns(wide_dx_, part.n, span_.n, part.dx.tile(c));
  }

  /// Columns from c on as floats, zeros behind them.
  void read_tile(TileRows<const T> from, const int64_t* places, int64_t n, int64_t c, float* to) {
    if (layout_.is_gathered)
      gather_tile(from, places, n, to);
    else
      widen_columns(from.tile(c), n, span_.n, to);
  }

  /// The same of columns that stand at these places. Behind those of floats zeros stand already.
  void gather_tile(TileRows<const T> from, const int64_t* places, int64_t n, float* to) {
    const int64_t columns = std::min(span_.n, kTileColumns);
    if constexpr (kIsFloat) {
      gather_columns(from, places, n, columns, to);
    } else {
      gather_columns(from, places, n, columns, packed_);
      widen_columns(packed_tile<const T>(), n, span_.n, to);
    }
  }

  void scatter_tile(TileRows<T> to, const int64_t* places, int64_t n) {
    const int64_t columns = std::min(span_.n, kTileColumns);
    if constexpr (kIsFloat) {
      scatter_columns(wide_dx_, places, n, columns, to);
    } else {
      narrow_columns(wide_dx_, n, span_.n, packed_tile<T>());
      scatter_columns(packed_, places, n, columns, to);
    }
  }

  template <class E>
  TileRows<E> packed_tile() {
    return {packed_, kBufferRows.at, 0};
  }

  const Operands& operands_;
  const GradColumns& layout_;
  const GatheredColumns places_;
  const T *x_, *grad_;
  T* dx_;
  bool is_streamed_, is_widened_ = false;
  int64_t turn_ = kStripRows;
  GradOffsets origin_;
  StripRows rows_;
  alignas(64) Buffer wide_x_, wide_grad_, wide_dx_;
  alignas(64) T packed_[kIsFloat ? 1 : kStripRows * kTileColumns];
};

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
