// The second pass over a block of columns: its results, by formulas of its columns.
#pragma once

#include "cpu/memory/tuning.h"
#include "cpu/mvn/tile_layout.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

using tuning::mvn::kGapBytes;

template <class T>
class TileResults {
 public:
  using Block = Blocks::Block;

  TileResults(const TileLayout<T>& layout, const Operands& o)
      : t_(layout),
        scale_(o.inputs[1], layout.plan.scale_dtype, &kOne),
        bias_(o.inputs[2], layout.plan.bias_dtype, &kZero) {}

  /// The formulas of a block's columns.
  void expand(const Block& b, const BlockState& state, TileScratch<T>& s) const {
    if (!t_.blocks.is_cross) {
      fill(b, scale_, &MvnAxis::scale, b.origin.scale, s.scale);
      fill(b, bias_, &MvnAxis::bias, b.origin.bias, s.bias);
    }
    s.expand(t_.blocks, b, state.coefficients, t_.plan.activation,
             t_.head(t_.y + b.origin.y) % b.width);
    s.expanded = &state;
  }

  /// Parts are written from the last one on: what was read last may still be in the caches.
  void normalize(const Block& b, int64_t part, TileScratch<T>& s) const {
    const int64_t first = part * t_.part_rows, end = std::min(t_.blocks.rows, first + t_.part_rows);
    if (t_.is_run) {
      s.pace.add(t_.elements(b, first, end));
      return normalize_runs(b, first, end, s);
    }
    t_.blocks.for_rows(b, first, end, [&](int64_t row, const Offsets& at) {
      const int64_t width = t_.blocks.row_width(b, row);
      s.pace.add(width);
      if (t_.in.is_gathered || t_.is_handed_out())
        return hand_out(b, at, t_.blocks.repeats_of(row), s);
      const Flow<T> flow = {t_.is_streamed, t_.ahead(b, row, t_.x + at.x, kGapBytes)};
      write_row(b, at, t_.y + at.y, t_.x + at.x, width, s, flow);
    });
  }

 private:
  void fill(const Block& b, const Parameter<T>& p, int64_t MvnAxis::* stride, int64_t offset,
            float* row) const {
    const int64_t fold = t_.blocks.layout.fold(), column = t_.blocks.layout.inner.*stride,
                  group = t_.blocks.layout.groups.*stride;
    if (column == 0 && group == 0) return std::fill_n(row, b.width, p.at(offset)), void();
    if (fold == 1) return p.copy(offset, group, b.width, row), void();
    if (group == fold * column) return p.copy(offset, column, b.width, row), void();
    for (int64_t g = 0; g < t_.blocks.groups_of(b); ++g)
      for (int64_t c = 0; c < fold; ++c) row[g * fold + c] = p.at(offset + g * group + c * column);
  }

  /// `repeat` of the plan's rows, from and to where they stand apart.
  void hand_out(const Block& b, const Offsets& at, int64_t repeat, TileScratch<T>& s) const {
    const bool is_alone = !t_.in.is_gathered && (repeat == 1 || t_.blocks.is_packed);
    T* const y = s.room.y.get();
    const T* x = t_.x + at.x;
    if (!is_alone) t_.in.gather(b, x, repeat, s.room.x.get());
    write_row(b, at, y, is_alone ? x : s.room.x.get(), b.width * repeat, s, {});
    t_.in.hand_out(b, y, repeat, t_.y + at.y);
  }

  void write_row(const Block& b, const Offsets& at, T* y, const T* x, int64_t width,
                 TileScratch<T>& s, Flow<T> flow) const {
    const MvnAxis &inner = t_.blocks.layout.inner, &groups = t_.blocks.layout.groups;
    if (!t_.blocks.is_cross) return write(y, x, width, 0, s, flow);
    if (inner.scale || inner.bias || groups.scale || groups.bias) {
      fill(b, scale_, &MvnAxis::scale, at.scale, s.scale);
      fill(b, bias_, &MvnAxis::bias, at.bias, s.bias);
      return apply_activated(t_.plan.activation, y, x, width,
                             GeneralFormula{s.pivot, s.factor, s.shift, s.scale, s.bias}, flow);
    }
    const Floats scale = broadcast(scale_.at(at.scale)), bias = broadcast(bias_.at(at.bias));
    if (!s.are_near)
      return apply_activated(t_.plan.activation, y, x, width,
                             CrossFormula{s.pivot, s.factor, s.shift, scale, bias}, flow);
    apply_common(t_.plan.activation, y, x, width, NearCrossFormula{s.factor, s.shift, scale, bias},
                 flow);
  }

  /// The same where rows follow each other: after the head of a stretch all of them begin lines,
  /// which are then written whole.
  void normalize_runs(const Block& b, int64_t first, int64_t end, const TileScratch<T>& s) const {
    for (int64_t row = first, stop; row < end; row = stop) {
      stop = std::min(end, row - row % t_.blocks.stretch + t_.blocks.stretch);
      const int64_t next = stop < end ? stop : first - t_.part_rows;  // the part before this one
      const Offsets at = t_.blocks.at(b, row);
      for_run(t_.y + at.y, t_.x + at.x, t_.elements(b, row, stop), t_.row_size,
              t_.head(t_.y + at.y), next < 0 ? nullptr : t_.x + t_.blocks.at(b, next).x,
              [&](T* y, const T* x, int64_t n, int64_t c, const T* ahead) {
                write(y, x, n, c, s, {t_.is_streamed, ahead});
              });
    }
  }

  /// n results by the formula's columns from c on.
  void write(T* y, const T* x, int64_t n, int64_t c, const TileScratch<T>& s, Flow<T> flow) const {
    if (s.are_near)
      apply_columns(t_.plan.activation, y, x, n, NearColumnFormula{s.factor + c, s.shift + c},
                    flow);
    else
      apply_activated(
          t_.plan.activation, y, x, n,
          GeneralFormula{s.pivot + c, s.factor + c, s.shift + c, s.scale + c, s.bias + c}, flow);
  }

  static constexpr float kOne = 1, kZero = 0;

  const TileLayout<T>& t_;
  Parameter<T> scale_, bias_;
};

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
