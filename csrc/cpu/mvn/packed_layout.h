// How rows packed in x are read and written: in batches, in turns of their columns, past the
// caches.
#pragma once

#include "cpu/isa/processor.h"
#include "cpu/memory/tuning.h"
#include "cpu/mvn/repeated_parameters.h"
#include "cpu/mvn/shared_parameters.h"
#include "cpu/mvn/widened_rows.h"
#include "cpu/threads/parallel.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

using tuning::mvn::kBatchBytes;
using tuning::mvn::kColumns;
using tuning::mvn::kLongBatchBytes;
using tuning::mvn::kLongBytes;
using tuning::mvn::kMostAhead;
using tuning::mvn::kMostConvertedRows;
using tuning::mvn::kMostLongRows;

/// Whether groups are one packed piece of x each, and their results are not.
inline bool is_scattered(const MvnPlan& plan) {
  MvnAxis joined[kMaxRank];
  if (join_for_x(plan.reduced, plan.reduced_rank, joined) != 1 || joined[0].x != 1) return false;
  return std::any_of(plan.reduced, plan.reduced + plan.reduced_rank,
                     [](const MvnAxis& a) { return a.y != a.x; });
}

/// The same plan with results that are packed as x is.
inline MvnPlan gathered(const MvnPlan& plan) {
  MvnPlan packed = plan;
  for (MvnAxis& a : packed.reduced) a.y = a.x;
  packed.reduced_rank = collapse(packed.reduced, packed.reduced_rank);
  return packed;
}

template <class T>
struct PackedLayout {
  const MvnPlan& plan;
  const MvnPlan* const scattered;  // whose results are not packed, or null
  const MvnAxis& inner;
  const T* const x;
  T* const y;
  const Parameter<T> scale, bias;
  const int64_t period;  // elements that a row of scale and bias is made for, or 0
  const bool is_large;   // x is read ahead, and y written past the caches unless it is x
  const bool is_streamed;
  const SharedRow<T> shared_scale, shared_bias;
  const bool is_converted;  // scale or bias, for every batch
  int64_t batch, columns;   // rows that are read before they are written, and in what parts
  int64_t ahead;            // from a row to the one that is read ahead, or 0

  /// `is_in_one_piece`: of x, a group. Results go where `to` has them, if it is there.
  PackedLayout(const MvnPlan& of, const Operands& o, bool is_in_one_piece, const MvnPlan* to)
      : plan(of),
        scattered(to),
        inner(of.reduced[of.reduced_rank - 1]),
        x(static_cast<const T*>(o.inputs[0])),
        y(static_cast<T*>(o.outputs[0])),
        scale(o.inputs[1], of.scale_dtype, &kOne),
        bias(o.inputs[2], of.bias_dtype, &kZero),
        period(period_of<T>(of)),
        is_large(are_rows_large()),
        is_streamed(is_large && x != y && !scattered),
        shared_scale(scale, of, &MvnAxis::scale, head()),
        shared_bias(bias, of, &MvnAxis::bias, head()),
        is_converted(shared_scale.is_in_parts() || shared_bias.is_in_parts()) {
    const int64_t row_bytes = plan.group_size * int64_t(sizeof(T));
    const bool is_long = row_bytes >= kLongBytes && (shared_scale.exists() || shared_bias.exists());
    batch = is_converted ? kMostConvertedRows
            : is_long    ? std::clamp<int64_t>(kLongBatchBytes / row_bytes, 1, kMostLongRows)
                         : std::clamp<int64_t>(kBatchBytes<T> / row_bytes, 1, kMostRows);
    columns = is_long && batch > 1 ? kColumns : plan.group_size;
    const bool is_read_ahead = is_large && plan.kept_rank == 1 && is_in_one_piece &&
                               row_bytes <= kMostAhead<T> &&
                               (!is_long || processor.is_told_of_runs);
    ahead = is_read_ahead ? plan.kept[0].x * batch : 0;
  }

  /// Whether rows and their results stand at equal distances, if there are several, have no
  /// activation and may share scale and bias.
  bool may_be_lean() const {
    const MvnAxis& rows = plan.kept[0];
    return !scattered && plan.kept_rank <= 1 && !rows.scale && !rows.bias && is_affine();
  }

  /// Whether a row has a scale and a bias, if any, for each position, and no activation.
  bool is_affine() const {
    return plan.reduced_rank == 1 && inner.scale && (inner.bias || !plan.has_bias) &&
           plan.activation.kind == ActivationKind::identity;
  }

  /// Whether rows are ones that WidenedRows would take, if they stood at equal distances and shared
  /// scale and bias: their sums are then the same.
  bool is_widened() const {
    if constexpr (kIsHalf<T> && kHasLineVectors)
      return is_affine() && has_bias_row() && WidenedRows<T>::suits(plan.group_size);
    return false;
  }

  /// Without a mean and a bias there is a shorter formula.
  bool has_bias_row() const { return plan.use_mean || plan.has_bias; }

 private:
  /// Elements of a row before the first line of y, or -1 where rows differ.
  int64_t head() const {
    if (!is_streamed) return 0;
    return plan.group_size * int64_t(sizeof(T)) % 64 ? -1 : to_line(y);
  }

  /// Whether x is read ahead, and y written past the caches. Where it is x it is not, as lines that
  /// were just read cost least where they are.
  bool are_rows_large() const {
    const int64_t piece = (period ? plan.group_size : inner.size) * int64_t(sizeof(T));
    const bool has_whole_lines = piece % 64 == 0 && bytes_to_line(y) == 0,
               is_run = may_be_lean() && plan.kept[0].y == plan.group_size;
    return (piece >= 2048 || has_whole_lines || is_run) &&
           is_norm_streamed(plan.groups * plan.group_size * int64_t(sizeof(T)));
  }

  static constexpr float kOne = 1, kZero = 0;
};

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
