// Packed rows of a gradient: what all threads know of them, and what one thread does with a share.
#pragma once

#include <limits>

#include "cpu/memory/tuning.h"
#include "cpu/mvn_grad/passed.h"
#include "cpu/mvn_grad/row_output.h"
#include "cpu/threads/interrupt.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

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
        batch(RowSpace<Acc<T>>::batch_of(n * int64_t(sizeof(T)), p.has_totals())),
        is_large(is_norm_streamed(p.cells * n * int64_t(sizeof(T)))),
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

  /// Finds the places of rows from the first on, up to `most` that are alike; returns how many.
  int64_t place_rows(int64_t first, int64_t most, GradOffsets* at) const {
    at[0] = GradOffsets{};
    if (plan.kept_rank == 0) return 1;
    const MvnGradAxis inner = plan.kept[plan.kept_rank - 1];
    const bool is_shared = !inner.scale && !inner.bias && !inner.totals[0] && !inner.totals[1];
    int64_t count = 0;
    bool is_full = false;
    for_axis_pieces(plan.kept, plan.kept_rank, GradOffsets{}, first, most,
                    [&](const GradOffsets& origin, int64_t, int64_t n) {
                      is_full |= count > 0 && !are_alike(at[0], origin);
                      if (is_full) return;
                      is_full = !is_shared;
                      for (int64_t r = 0; r < (is_shared ? n : 1); ++r)
                        at[count++] = origin.after(inner, r);
                    });
    return count;
  }

 private:
  /// Whether rows take the same scale and bias and are added to the same totals.
  static bool are_alike(const GradOffsets& a, const GradOffsets& b) {
    return a.scale == b.scale && a.bias == b.bias && a.totals[0] == b.totals[0] &&
           a.totals[1] == b.totals[1];
  }
};

/// What one thread does with rows that it takes in order.
template <class T>
class RowShare {
 public:
  using A = Acc<T>;

  RowShare(const RowCells<T>& cells, const Totals<A>& totals)
      : c_(cells),
        plan_(cells.plan),
        totals_(totals),
        space_(cells.plan, cells.batch, cells.places.first_whole()),
        output_(cells.places, cells.batch) {
    if (!plan_.has_scale) std::fill_n(space_.scale, c_.n, A(1));
    if (space_.bias) std::fill_n(space_.bias, c_.n, A(0));
    scale_ = space_.scale;
    bias_ = space_.bias;
  }

  /// Rows [begin, end), which are added to a share of the totals.
  void run(int64_t begin, int64_t end, int64_t share) {
    Pace pace;
    GradOffsets at[kMostBatched];
    for (int64_t i = begin, count; i < end; i += count) {
      if (i > begin && (i - begin) % kMostStaged == 0) totals_.settle(share);
      count = c_.place_rows(
          i, std::min({c_.batch, end - i, kMostStaged - (i - begin) % kMostStaged}), at);
      count = std::min(count, rows_left(at[0], share));
      pace.add(count * c_.n);
      run_batch(at, count);
    }
    for (int k = 0; k < 2; ++k) flush(share, k);
  }

 private:
  /// Rows since a total was given away, and where they belong.
  struct Added {
    int64_t rows = 0, at = 0;
  };

  /// How many more rows may be added to what has been, which is given away if they belong
  /// elsewhere. Neither total's order follows from the other's.
  int64_t rows_left(const GradOffsets& at, int64_t share) {
    int64_t left = kMostAdded;
    for (int k = 0; k < 2; ++k) {
      if (added_[k].rows == kMostAdded || added_[k].at != at.totals[k]) flush(share, k);
      added_[k].at = at.totals[k];
      left = std::min(left, kMostAdded - added_[k].rows);
    }
    return left;
  }

  void flush(int64_t share, int k) {
    A* const row = k == 0 ? space_.totals.products : space_.totals.sums;
    if (row && added_[k].rows) {
      totals_.add(share, k, added_[k].at, plan_.reduced[0].totals[k], row, nullptr, c_.n);
      space_.clear(row);
    }
    added_[k].rows = 0;
  }

  void run_batch(const GradOffsets* at, int64_t count) {
    for (Added& added : added_) added.rows += count;
    take_parameters(at[0]);
    if (plan_.activation.kind != ActivationKind::identity)
      finish_batch<A>(at, count);
    else
      finish_batch<T>(at, count);
  }

  /// Scale and bias as rows of the computing type.
  void take_parameters(const GradOffsets& at) {
    if (plan_.has_scale && at.scale != scale_at_)
      scale_ = c_.scale.row(scale_at_ = at.scale, 1, c_.n, space_.scale);
    if (!plan_.has_bias || at.bias == bias_at_) return;
    bias_at_ = at.bias;
    if (plan_.reduced[0].bias)
      bias_ = c_.bias.row(at.bias, 1, c_.n, space_.bias);
    else
      std::fill_n(space_.bias, c_.n, c_.bias.at(at.bias));
  }

  /// G is T, or A where an activation's slopes have been multiplied by.
  template <class G>
  void finish_batch(const GradOffsets* at, int64_t count) {
    GradRow<T, G> rows[kMostBatched];
    DxRow<T> to[kMostBatched];
    bool is_sound = true;
    // Step by step: divisions and roots of one row do not wait for those of another.
    for (int64_t r = 0; r < count; ++r) rows[r].state = state_given<A>(plan_, c_.operands, at[r]);
    for (int64_t r = 0; r < count; ++r)
      if (!read_row(at[r], space_.h[r], rows[r])) find_sums(rows[r]);
    if (plan_.has_own_sums())
      for (int64_t r = 0; r < count; ++r) set_means(rows[r]);
    for (int64_t r = 0; r < count; ++r)
      is_sound &= to[r].set(plan_.wants_dx ? output_.place(at, r) : nullptr, rows[r].state);
    bool has_totals = !plan_.has_totals();
    if (plan_.wants_dx && is_sound && plan_.reduced[0].dx == 1) {
      has_totals |= write_rows_to(takes_product(plan_), rows, to, count, scale_, c_.n,
                                  space_.totals, output_.flow());
      output_.put(at, count);
    } else if (plan_.wants_dx)
      for (int64_t r = 0; r < count; ++r) write_singly(c_.dx + at[r].dx, rows[r]);
    if (!has_totals) add_rows_to(space_.totals, rows, to, count, c_.n);
  }

  /// Returns whether sums of w have been found, or are not needed.
  template <class G>
  bool read_row(const GradOffsets& at, A* h, GradRow<T, G>& row) const {
    const bool is_activated = plan_.activation.kind != ActivationKind::identity;
    row.x = c_.x + at.x;
    const T* const grad = c_.grad + at.grad;
    if (c_.is_large) {
      row.next[0] = row.x + c_.x_step;
      row.next[1] = grad + c_.grad_step;
      if (!plan_.wants_dx) fetch_row(grad);
    }
    if constexpr (std::is_same_v<G, T>) {
      row.grad = grad;
      if (plan_.has_own_statistics() && plan_.has_own_sums() && !is_activated)
        return find_joined(row, scale_, c_.n, plan_.use_mean, plan_.use_variance, plan_.epsilon);
    }
    if (plan_.has_own_statistics()) {
      JoinedSums sums;
      row.state.normal = normalizer_of(
          row_moments<false>(row.x, row.x, row.next[0], scale_, c_.n, plan_.use_mean, sums),
          plan_.use_variance, plan_.epsilon);
    }
    if constexpr (std::is_same_v<G, A>)
      if (is_activated) row.grad = pass(row, grad, h);
    return !plan_.has_own_sums();
  }

  /// Before it is read for the totals, with those of other rows.
  void fetch_row(const T* row) const {
    for (int64_t i = 0; i < c_.n; i += 64 / int64_t(sizeof(T))) fetch(row, i);
  }

  template <class G>
  void find_sums(GradRow<T, G>& row) const {
    if (plan_.use_variance)
      sum_row<true>(row, scale_, c_.n);
    else
      sum_row<false>(row, scale_, c_.n);
  }

  template <class G>
  void set_means(GradRow<T, G>& row) const {
    const auto n = double(c_.n);
    if (plan_.use_mean) row.state.mean_w = static_cast<A>(row.sum_w / n);
    if (plan_.use_variance) row.state.mean_wz = static_cast<A>(row.sum_wz / n);
  }

  /// dx of a row whose elements stand apart, or whose factors may not be joined.
  template <class G>
  void write_singly(T* dx, const GradRow<T, G>& row) const {
    T* const packed = reinterpret_cast<T*>(space_.wide);
    DxRow<T> to;
    if (to.set(packed, row.state))
      write_rows_to(takes_product(plan_), &row, &to, 1, scale_, c_.n, {}, {});
    else
      write_apart(takes_product(plan_), packed, row, scale_, c_.n);
    for (int64_t i = 0; i < c_.n; ++i) dx[i * plan_.reduced[0].dx] = packed[i];
  }

  /// h of a row.
  template <class G>
  const A* pass(const GradRow<T, G>& row, const T* grad, A* h) const {
    const Activation& f = plan_.activation;
    const NormalLanes<A> normal(row.state.normal);
    if (reads_input(f.kind))
      for_lanes<A>(0, c_.n, [&](int64_t i, int, auto m) {
        const Vector<A> z = normal(load_wide(row.x + i, m));
        store_narrow(h + i, fused(z, load_wide(scale_ + i, m), load_wide(bias_ + i, m)), Whole{});
      });
    if constexpr (std::is_same_v<T, A>) {
      pass_row(f, h, grad, h, c_.n);
    } else {
      for_lanes<A>(0, c_.n, [&](int64_t i, int, auto m) {
        store_narrow(space_.wide + i, load_wide(grad + i, m), Whole{});
      });
      pass_row(f, h, space_.wide, h, c_.n);
    }
    return h;
  }

  static constexpr int64_t kNowhere = std::numeric_limits<int64_t>::min();

  const RowCells<T>& c_;
  const MvnGradPlan& plan_;
  const Totals<A>& totals_;
  RowSpace<A> space_;
  RowOutput<T> output_;
  const A *scale_ = nullptr, *bias_ = nullptr;
  int64_t scale_at_ = kNowhere, bias_at_ = kNowhere;  // where these rows begin
  Added added_[2];                                    // of each total
};

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
