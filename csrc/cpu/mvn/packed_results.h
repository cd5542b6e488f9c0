// The second pass over packed rows: their results, by a formula of each.
#pragma once

#include <utility>

#include "cpu/mvn/packed_layout.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

/// One thread's space for what is not packed floats already, and where a batch stands.
template <class T>
struct PackedBuffers {
  alignas(64) float scale[kStretch], bias[kStretch];
  typename SharedRow<T>::Part shared_scale, shared_bias;
  int64_t repeated_scale = -1, repeated_bias = -1;  // where what those hold begins
  Offsets at[kMostRows];
  alignas(64) T result[kMostPeriod];  // of a group, before it is scattered
  T* const y;                         // that, or the tensor

  explicit PackedBuffers(const PackedLayout<T>& rows)
      : shared_scale(rows.shared_scale.whole()),
        shared_bias(rows.shared_bias.whole()),
        y(rows.scattered ? result : rows.y) {
    const int64_t n = rows.plan.group_size;
    if (rows.plan.has_bias || !rows.has_bias_row() || !rows.inner.scale) return;
    std::fill_n(bias, std::min(n, kStretch), -0.0f);  // to which a product is added unchanged
    if (n <= kStretch) shared_bias.row = bias;
  }

  /// Makes rows of scale and bias that are repeated along a group: a period and less than a line.
  void repeat(const PackedLayout<T>& rows, const Offsets& group) {
    const int64_t once = rows.inner.size, n = rows.period + 64 / int64_t(sizeof(T));
    static_assert(kMostPeriod + 64 <= kStretch);
    if (std::exchange(repeated_scale, group.scale) != group.scale)
      repeat_row(rows.scale, group.scale, rows.inner.scale, once, n, scale);
    if (std::exchange(repeated_bias, group.bias) == group.bias) return;
    if (rows.plan.has_bias)
      repeat_row(rows.bias, group.bias, rows.inner.bias, once, n, bias);
    else
      std::fill_n(bias, n, -0.0f);
  }

  /// The same of those that pieces share, for elements [first, first + n) of a group.
  void spread(const PackedLayout<T>& rows, const Offsets& group, int64_t first, int64_t n) {
    const int64_t fold = rows.inner.size, skip = first % fold;
    const MvnAxis& pieces = rows.plan.reduced[0];
    Offsets at = group;
    at.add(pieces, first / fold);
    spread_row(rows.scale, at.scale, pieces.scale, fold, skip, n, scale);
    if (rows.plan.has_bias)
      spread_row(rows.bias, at.bias, pieces.bias, fold, skip, n, bias);
    else if (std::exchange(repeated_bias, 0) != 0)
      std::fill_n(bias, kMostPeriod, -0.0f);
  }
};

template <class T>
class PackedResults {
 public:
  explicit PackedResults(const PackedLayout<T>& layout) : p_(layout) {}

  /// In turns of columns whose scale and bias stay in the first-level cache meanwhile.
  void write_batch(int64_t count, int64_t more, const Coefficients<kMostRows>& coefficients,
                   PackedBuffers<T>& buffers) const {
    const Offsets* const at = buffers.at;
    if (!p_.scattered && p_.columns == p_.plan.group_size && p_.plan.reduced_rank == 1 &&
        buffers.shared_scale.row && (buffers.shared_bias.row || !p_.has_bias_row()))
      return write_jointly(count, more, coefficients, buffers);
    for (int64_t first = 0; first < p_.plan.group_size; first += p_.columns) {
      if (p_.is_converted) {
        const int64_t most = p_.columns + 64;  // up to the line after them
        buffers.shared_scale = p_.shared_scale.part(first, most, buffers.scale);
        buffers.shared_bias = p_.shared_bias.part(first, most, buffers.bias);
      }
      for (int64_t i = 0; i < count; ++i) {
        const int64_t begin = line_from(at[i], first), end = line_from(at[i], first + p_.columns);
        normalize(at[i], coefficients, i, begin, end - begin, i < more ? p_.ahead : 0, buffers);
      }
    }
  }

  /// Elements [first, first + n) of group i; what stands `ahead` of them in x is read ahead.
  void normalize(const Offsets& group, const Coefficients<kMostRows>& c, int64_t i, int64_t first,
                 int64_t n, int64_t ahead, PackedBuffers<T>& buffers) const {
    const GroupFormula formula = formula_of(c, i);
    if (!p_.scattered) return write(group, formula, first, n, ahead, buffers);
    for (const int64_t end = first + n; first < end; first += kMostPeriod) {
      const int64_t length = std::min(kMostPeriod, end - first);
      Offsets at = group;
      at.y = -first;  // from where the result's first element stands
      write(at, formula, first, length, ahead, buffers);
      scatter(group, first, length, buffers.result);
    }
  }

 private:
  /// All rows take the same positions of scale and bias, which are there.
  void write_jointly(int64_t count, int64_t more, const Coefficients<kMostRows>& c,
                     const PackedBuffers<T>& buffers) const {
    RowBatch<T, kMostRows> rows(count, p_.plan.group_size, p_.is_streamed, buffers.shared_scale.row,
                                buffers.shared_bias.row);
    for (int64_t i = 0; i < count; ++i) {
      const T* const x = p_.x + buffers.at[i].x;
      const T* const ahead = p_.ahead && i < more ? x + p_.ahead : nullptr;
      rows.row[i] = {p_.y + buffers.at[i].y, x, ahead, formula_of(c, i)};
    }
    apply_batch(p_.plan.activation, rows);
  }

  /// Packed results, to where the call wants them.
  void scatter(const Offsets& group, int64_t first, int64_t n, const T* result) const {
    for_axis_pieces(p_.scattered->reduced, p_.scattered->reduced_rank, group, first, n,
                    [&](const Offsets& at, int64_t, int64_t length) {
                      const int64_t step = p_.scattered->reduced[p_.scattered->reduced_rank - 1].y;
                      T* const to = p_.y + at.y;
                      for (int64_t i = 0; i < length; ++i) to[i * step] = result[i];
                      result += length;
                    });
  }

  void write(const Offsets& group, const GroupFormula& formula, int64_t first, int64_t n,
             int64_t ahead, PackedBuffers<T>& buffers) const {
    if (p_.period) return normalize_packed(group, formula, first, n, ahead, buffers);
    if (p_.plan.reduced_rank == 1) {
      Offsets at = group;
      at.add(p_.inner, first);
      return normalize_piece(at, first, n, ahead, formula, buffers);
    }
    for_axis_pieces(p_.plan.reduced, p_.plan.reduced_rank, group, first, n,
                    [&](const Offsets& at, int64_t, int64_t length) {
                      normalize_piece(at, 0, length, ahead, formula, buffers);
                    });
  }

  GroupFormula formula_of(const Coefficients<kMostRows>& c, int64_t i) const {
    return {c.pivot[i], c.factor[i], c.shift[i], c.near[i] != 0 && is_plain(p_.plan.activation)};
  }

  /// The first position from `position` on where a line of a group of y begins, or its end.
  int64_t line_from(const Offsets& group, int64_t position) const {
    if (position == 0 || position >= p_.plan.group_size)
      return std::min(position, p_.plan.group_size);
    const int64_t rest = bytes_to_line(p_.y + group.y + position) / int64_t(sizeof(T));
    return std::min(position + rest, p_.plan.group_size);
  }

  /// With rows that are made of scale and bias: period by period from a line of y on.
  void normalize_packed(const Offsets& group, const GroupFormula& formula, int64_t first, int64_t n,
                        int64_t ahead, PackedBuffers<T>& buffers) const {
    const bool are_repeated = parameter_pieces(p_.plan) == ParameterPieces::repeated;
    if (are_repeated) buffers.repeat(p_, group);
    const T* const x = p_.x + group.x;
    const int64_t lead = p_.is_streamed ? to_line(buffers.y + group.y) : 0;
    for (const int64_t end = first + n; first < end;) {
      const int64_t since = first - lead, position = since < 0 ? first : lead + since % p_.period,
                    rest = since < 0 ? -since : lead + p_.period - position,
                    length = std::min(rest, end - first), from = are_repeated ? position : 0;
      if (!are_repeated) buffers.spread(p_, group, first, length);
      RowBatch<T, kMostRows> rows(1, length, p_.is_streamed, buffers.scale + from,
                                  p_.has_bias_row() ? buffers.bias + from : nullptr);
      rows.row[0] = {buffers.y + (group.y + first), x + first, ahead ? x + first + ahead : nullptr,
                     formula};
      apply_batch(p_.plan.activation, rows);
      first += length;
    }
  }

  /// `position` is where the piece stands in a shared row.
  void normalize_piece(const Offsets& at, int64_t position, int64_t n, int64_t ahead,
                       const GroupFormula& formula, PackedBuffers<T>& buffers) const {
    const Flow<T> flow = {p_.is_streamed, ahead ? p_.x + at.x + ahead : nullptr};
    if (p_.inner.scale == 0 && p_.inner.bias == 0)
      return apply_uniform(p_.plan.activation, buffers.y + at.y, p_.x + at.x, n, formula,
                           p_.scale.at(at.scale), p_.bias.at(at.bias), flow);
    const auto &scales = buffers.shared_scale, &biases = buffers.shared_bias;
    const int64_t most = scales.row && (biases.row || !p_.has_bias_row()) ? n : kStretch;
    for (int64_t i = 0; i < n; i += most) {
      const int64_t length = std::min(most, n - i);
      Offsets o = at;
      o.add(p_.inner, i);
      const float* scale = scales.row
                               ? scales.at(position + i)
                               : row_of(p_.scale, o.scale, p_.inner.scale, length, buffers.scale);
      const float* bias = biases.row ? biases.at(position + i) : buffers.bias;
      if (p_.plan.has_bias && !biases.row)
        bias = row_of(p_.bias, o.bias, p_.inner.bias, length, buffers.bias);
      RowBatch<T, kMostRows> rows(1, length, p_.is_streamed, scale,
                                  p_.has_bias_row() ? bias : nullptr);
      rows.row[0] = {buffers.y + o.y, p_.x + o.x, flow.ahead ? flow.ahead + i : nullptr, formula};
      apply_batch(p_.plan.activation, rows);
    }
  }

  const PackedLayout<T>& p_;
};

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
