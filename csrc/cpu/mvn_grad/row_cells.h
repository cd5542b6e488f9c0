// Packed rows of a gradient: what all threads know of them.
#pragma once

#include "cpu/memory/tuning.h"
#include "cpu/mvn_grad/row_output.h"
#include "cpu/mvn_grad/row_states.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

using tuning::mvn_grad::kBatchBytes;
using tuning::mvn_grad::kLeastBatched;
using tuning::mvn_grad::kLeastPlain;
using tuning::mvn_grad::kMostBatchBytes;
using tuning::mvn_grad::kRowAheadBytes;

/// Rows whose terms are added up before they go to the totals, and those that are staged there.
constexpr int64_t kMostAdded = 64, kMostStaged = 1024;

/// A plan's rows and where they stand.
template <class T>
struct RowCells {
  static constexpr Acc<T> kOne = 1, kZero = 0;

  const MvnGradPlan& plan;
  const Operands& operands;
  const T *x, *grad;
  T* dx;
  Parameter<T> scale, bias;
  int64_t n, batch;  // elements of a row; rows that are taken together
  bool is_own;       // scale and bias belong to a row, not to its positions
  bool is_large;     // read ahead
  RowPlaces<T> places;
  int64_t x_step = 0, grad_step = 0;  // to the row that is read ahead

  RowCells(const MvnGradPlan& p, const Operands& o)
      : plan(p),
        operands(o),
        x(static_cast<const T*>(o.inputs[0])),
        grad(static_cast<const T*>(o.inputs[1])),
        dx(p.wants_dx ? static_cast<T*>(o.outputs[0]) : nullptr),
        scale(o.inputs[2], p.scale_dtype, &kOne),
        bias(p.has_bias ? o.inputs[3] : nullptr, p.bias_dtype, &kZero),
        n(p.cell_size),
        batch(batch_of(n * int64_t(sizeof(T)))),
        is_own(has_own_parameters(p)),
        is_large(is_norm_streamed(p.compulsory_bytes() / 2)),
        places(p, dx, is_large) {
    if (p.kept_rank == 0) return;
    const int64_t row_bytes = n * int64_t(sizeof(T)),
                  ahead = std::max(batch, (kRowAheadBytes + row_bytes - 1) / row_bytes);
    x_step = ahead * p.kept[p.kept_rank - 1].x;
    grad_step = ahead * p.kept[p.kept_rank - 1].grad;
  }

  /// Whether nothing of a share needs to go further than where rows are staged.
  bool are_staged(int64_t cells, int64_t shares) const {
    bool are_rows = shares > 0 && (cells - 1) / shares < kMostStaged;
    for (int k = 0; k < 2; ++k)
      are_rows &= !plan.totals[k].is_wanted || plan.reduced[0].totals[k] == 1;
    return are_rows;
  }

  /// Finds the places of rows from the first on, up to `most` that share what belongs to positions;
  /// returns how many.
  int64_t place_rows(int64_t first, int64_t most, BatchPlaces& at) const {
    const MvnGradAxis inner = plan.kept_rank > 0 ? plan.kept[plan.kept_rank - 1] : MvnGradAxis{};
    const bool is_shared = is_own || !inner.has_parameters();
    int64_t count = 0;
    bool is_full = false;
    const auto place = [&](const GradOffsets& origin, int64_t, int64_t n) {
      is_full |= !is_own && count > 0 && !are_alike(at, origin);
      if (is_full) return;
      is_full = !is_shared;
      const int64_t here = is_shared ? n : 1;
      if (is_own || count == 0) at.set_parameters(count, is_own ? here : 1, origin, inner);
      at.set(plan, count, here, origin, inner);
      count += here;
    };
    if (plan.kept_rank == 0)
      place(GradOffsets{}, 0, 1);
    else
      for_axis_pieces(plan.kept, plan.kept_rank, GradOffsets{}, first, most, place);
    return count;
  }

 private:
  /// How many rows of so many bytes make up a batch.
  int64_t batch_of(int64_t row_bytes) const {
    const int64_t least =
                      sizeof(T) < sizeof(float) || plan.has_totals() ? kLeastBatched : kLeastPlain,
                  few = std::min(least, kMostBatchBytes / row_bytes),
                  most =
                      std::clamp<int64_t>(std::max(kBatchBytes / row_bytes, few), 1, kMostBatched);
    const bool wait =
        plan.kept_rank > 0 && (is_met(x, &MvnGradAxis::x) || is_met(grad, &MvnGradAxis::grad));
    return wait ? std::min<int64_t>(most, 2) : most;
  }

  /// Whether all rows stand at one place of a page, at which, or near it, dx is written, too: what
  /// is read of a row waits for stores to the row before it, as if they were of the same memory,
  /// and the more rows, the longer.
  bool is_met(const T* tensor, int64_t MvnGradAxis::* step) const {
    constexpr uintptr_t kPage = 4096, kNear = 192;
    const auto bytes = uintptr_t(plan.kept[plan.kept_rank - 1].*step) * sizeof(T);
    if (!tensor || !dx || bytes % kPage != 0) return false;
    const uintptr_t apart = reinterpret_cast<uintptr_t>(tensor) - reinterpret_cast<uintptr_t>(dx);
    return (apart + kNear) % kPage <= 2 * kNear;
  }

  /// Whether a row takes the same scale and bias as the first one and is added to the same totals.
  static bool are_alike(const BatchPlaces& a, const GradOffsets& b) {
    return a.scale[0] == b.scale && a.bias[0] == b.bias && a.totals[0][0] == b.totals[0] &&
           a.totals[1][0] == b.totals[1];
  }
};

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
