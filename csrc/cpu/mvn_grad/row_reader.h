// A batch of packed rows, read: their states and sums, and the gradient that has passed an
// activation.
#pragma once

#include <limits>

#include "cpu/mvn_grad/passed.h"
#include "cpu/mvn_grad/row_cells.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

template <class T>
class RowReader {
 public:
  using A = Acc<T>;

  RowReader(const RowCells<T>& cells, const RowSpace<A>& space)
      : c_(cells), plan_(cells.plan), space_(space), states_(plan_, cells.operands, cells.is_own) {
    if (c_.is_own || !plan_.has_scale) std::fill_n(space.scale, c_.n, A(1));
    if (space.bias) std::fill_n(space.bias, c_.n, A(0));
    scale_ = space.scale;
    bias_ = space.bias;
  }

  RowStates& states() { return states_; }
  const RowStates& states() const { return states_; }
  /// That of each position.
  const A* scale() const { return scale_; }

  /// Reads `count` rows, from the data that belong to them on. G is T, or A where an activation's
  /// slopes have been multiplied by. Step by step: what follows from the sums of all rows is found
  /// at once.
  template <class G>
  void read(const BatchPlaces& at, int64_t count, GradRow<T, G>* rows) {
    if (!c_.is_own) take_parameters(at);
    for (int64_t r = 0; r < count; ++r) place_row(at, r, rows[r]);
    states_.take(at, count);
    bool are_summed = !needs_sums();
    if (plan_.has_own_statistics()) are_summed |= find_statistics(rows, count);
    if constexpr (std::is_same_v<G, A>)
      if (plan_.activation.kind != ActivationKind::identity)
        for (int64_t r = 0; r < count; ++r) rows[r].grad = pass(r, rows[r].x, c_.grad + at.grad[r]);
    if (!are_summed) {
      for (int64_t r = 0; r < count; ++r) add_row(r, rows[r]);
      states_.sums().template finish<2>(count, 2);
    }
    if (plan_.has_own_sums()) states_.take_means(count);
  }

 private:
  /// Whether sums over rows are needed.
  bool needs_sums() const { return plan_.has_own_sums() || (c_.is_own && plan_.has_totals()); }

  /// Scale and bias as rows of the computing type.
  void take_parameters(const BatchPlaces& at) {
    if (plan_.has_scale && at.scale[0] != scale_at_)
      scale_ = c_.scale.row(scale_at_ = at.scale[0], 1, c_.n, space_.scale);
    if (!plan_.has_bias || at.bias[0] == bias_at_) return;
    bias_at_ = at.bias[0];
    if (plan_.reduced[0].bias)
      bias_ = c_.bias.row(bias_at_, 1, c_.n, space_.bias);
    else
      std::fill_n(space_.bias, c_.n, c_.bias.at(bias_at_));
  }

  template <class G>
  void place_row(const BatchPlaces& at, int64_t r, GradRow<T, G>& row) const {
    row.x = c_.x + at.x[r];
    const T* const grad = c_.grad + at.grad[r];
    if constexpr (std::is_same_v<G, T>) row.grad = grad;
    row.next[0] = row.next[1] = nullptr;
    if (!c_.is_large) return;
    row.next[0] = row.x + c_.x_step;
    row.next[1] = grad + c_.grad_step;
    if (!plan_.wants_dx) fetch_row(grad);
  }

  /// Statistics of rows, and where the gradient passes as it is their sums in the same pass.
  /// Returns whether it does.
  template <class G>
  bool find_statistics(const GradRow<T, G>* rows, int64_t count) {
    BatchSums& sums = states_.sums();
    const bool is_joined = plan_.activation.kind == ActivationKind::identity && needs_sums();
    const auto add = [&](int64_t r) {
      if constexpr (std::is_same_v<G, T>)
        if (is_joined)
          return add_single_row<true>(rows[r], scale_, c_.n, states_.guess(r), r, sums);
      add_single_row<false>(rows[r], scale_, c_.n, states_.guess(r), r, sums);
    };
    if (plan_.use_mean) states_.set_guesses(rows, count);
    if (c_.n <= kMostShort) {
      add_short(is_joined, rows, count);
    } else {
      sums.template begin<4>(0);
      for (int64_t r = 0; r < count; ++r) add(r);
      sums.template finish<4>(count, 0);
    }
    const bool are_near = states_.are_guesses_near(count);
    for (int64_t r = 0; r < count && !are_near; ++r) {
      if (states_.correct_guess(r)) continue;
      sums.template begin_row<4>(r, 0);
      add(r);
      sums.template finish_row<4>(r, 0);
    }
    states_.take_statistics(count);
    const bool are_sound = !is_joined || states_.are_products_sound(count);
    for (int64_t r = 0; r < count && !are_sound; ++r) {
      if (states_.is_product_sound(r)) continue;
      add_row(r, rows[r]);
      sums.template finish_row<2>(r, 2);
    }
    return is_joined;
  }

  /// The same of short rows about their guesses.
  template <class G>
  void add_short(bool is_joined, const GradRow<T, G>* rows, int64_t count) {
    if constexpr (std::is_same_v<G, T>)
      if (is_joined)
        return add_short_rows<true>(rows, count, scale_, c_.n, states_.guesses(), states_.sums());
    add_short_rows<false>(rows, count, scale_, c_.n, states_.guesses(), states_.sums());
  }

  /// Before it is read for the totals, with those of other rows.
  void fetch_row(const T* row) const {
    for (int64_t i = 0; i < c_.n; i += 64 / int64_t(sizeof(T))) fetch(row, i);
  }

  /// Sums of w and w * z of row r.
  template <class G>
  void add_row(int64_t r, const GradRow<T, G>& row) {
    BatchSums& sums = states_.sums();
    sums.template begin_row<2>(r, 2);
    if (plan_.use_variance || (c_.is_own && plan_.totals[0].is_wanted))
      add_products<true>(row, states_.normalizer(r), scale_, c_.n, r, sums);
    else
      add_products<false>(row, states_.normalizer(r), scale_, c_.n, r, sums);
  }

  /// h of row r.
  const A* pass(int64_t r, const T* x, const T* grad) const {
    const Activation& f = plan_.activation;
    A* const h = space_.h[r];
    const NormalLanes<A> normal(states_.normalizer(r));
    const Vector<A> scale = all_lanes<A>(states_.scale(r)), bias = all_lanes<A>(states_.bias(r));
    if (reads_input(f.kind))
      for_lanes<A>(0, c_.n, [&](int64_t i, int, auto m) {
        const Vector<A> z = normal(load_wide(x + i, m));
        store_narrow(h + i,
                     c_.is_own ? fused(z, scale, bias)
                               : fused(z, load_wide(scale_ + i, m), load_wide(bias_ + i, m)),
                     Whole{});
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
  const RowSpace<A>& space_;
  RowStates states_;
  const A *scale_ = nullptr, *bias_ = nullptr;
  int64_t scale_at_ = kNowhere, bias_at_ = kNowhere;  // where these rows begin
};

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
