// What the rows of a batch have of their own, a row in each lane: statistics, sums and means, and
// what dx is made with.
#pragma once

#include <optional>

#include "cpu/memory/tuning.h"
#include "cpu/mvn/sums.h"
#include "cpu/mvn_grad/cell_states.h"
#include "cpu/mvn_grad/row_results.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

using BatchPlaces = CellPlaces<kMostBatched>;

/// Rows' states, from what data say or from what passes over rows have added up.
class RowStates {
 public:
  /// `is_own`: scale and bias belong to rows.
  RowStates(const MvnGradPlan& plan, const Operands& operands, bool is_own)
      : plan_(plan),
        operands_(operands),
        is_own_(is_own),
        n_(double(plan.cell_size)),
        share_(1 / n_) {
    std::fill_n(cells_.scale, kMostBatched, 1.0f);
    std::fill_n(cells_.bias, kMostBatched, 0.0f);
  }

  /// What data say of some rows.
  void take(const BatchPlaces& at, int64_t count) {
    for (float* const lanes : {cells_.pivot, cells_.delta, cells_.shift, cells_.slope})
      std::fill_n(lanes, count, 0.0f);
    std::fill_n(cells_.factor, count, 1.0f);
    if (is_own_) take_parameters(plan_, operands_, at, count, cells_);
    if (plan_.are_given) take_given(plan_, operands_, at, count, cells_);
    if (plan_.has_sums) take_sums(plan_, operands_, at, count, cells_);
  }

  /// What rows' passes add to.
  BatchSums& sums() { return sums_; }

  /// Row r's guess at its mean, about which it is summed up.
  void set_guess(int64_t r, float guess) { guess_[r] = guess; }
  float guess(int64_t r) const { return guess_[r]; }
  const float* guesses() const { return guess_; }
  /// guess_from() of `count` rows.
  template <class T, class G>
  void set_guesses(const GradRow<T, G>* rows, int64_t count) {
    if (plan_.cell_size > kMostFromOnePlace) {
      for (int64_t r = 0; r < count; ++r)
        guess_[r] = guess_from(plan_.cell_size,
                               [&](int64_t i) { return load_wide(rows[r].x + i, Whole{}); });
      return;
    }
    alignas(64) T first[kMostBatched * kGuessed] = {};
    for (int64_t r = 0; r < count; ++r)
      std::memcpy(first + r * kGuessed, rows[r].x, kGuessed * sizeof(T));
    for (int64_t r = 0; r < count; r += kFloats) {
      Floats lanes[kGuessed];
      for (int k = 0; k < kGuessed; ++k)
        lanes[k] = load_wide(first + r * kGuessed + k * kFloats, Whole{});
      store_vector(guess_ + r, guesses_of(sums_of_blocks<kGuessed, int(kFloats) / kGuessed>(lanes),
                                          kGuessShare));
    }
  }

  /// Whether all guesses of `count` rows were near the means.
  bool are_guesses_near(int64_t count) const {
    Vector<int64_t> are_near = kDoubleIndices >= 0;
    for (int64_t r = 0; r < count && plan_.use_mean; r += kDoubles) {
      const Doubles delta = load_vector<Doubles>(sums_.of[0] + r) * share_,
                    square = load_vector<Doubles>(sums_.of[1] + r) * share_;
      are_near &= is_near(delta, fused(-delta, delta, square)) | (kDoubleIndices >= count - r);
    }
    return all_of(are_near);
  }

  /// Whether row r's guess was near the mean; if not, that takes its place.
  bool correct_guess(int64_t r) {
    const double delta = sums_.of[0][r] * share_;
    if (!plan_.use_mean || is_near(delta, fused(-delta, delta, sums_.of[1][r] * share_)))
      return true;
    guess_[r] = guess_of(double(guess_[r]) + delta, 1);
    return false;
  }

  /// Statistics of `count` rows from sums about guesses, and sums of w * z from those of w * d.
  void take_statistics(int64_t count) {
    const double n = n_;
    for (int64_t r = 0; r < count; r += kDoubles) {
      const LaneMoments m(plan_.use_mean, n, load_vector<Doubles>(sums_.of[0] + r),
                          load_vector<Doubles>(sums_.of[1] + r));
      store_vector(cells_.pivot + r, load_vector<HalfFloats>(guess_ + r));
      take_moments(plan_, m, r, cells_);
      const Doubles factor = as_doubles(load_vector<HalfFloats>(cells_.factor + r)),
                    w = load_vector<Doubles>(sums_.of[2] + r);
      store_vector(sums_.of[3] + r,
                   factor * fused(-m.delta, w, load_vector<Doubles>(sums_.of[3] + r)));
    }
  }

  /// Sums of w * z from those of w * d, where d is x less the pivot of what data say.
  void take_products(int64_t count) {
    for (int64_t r = 0; r < count; r += kDoubles) {
      const auto lanes = [&](const float* of) {
        return as_doubles(load_vector<HalfFloats>(of + r));
      };
      const Doubles w = load_vector<Doubles>(sums_.of[2] + r),
                    wd = load_vector<Doubles>(sums_.of[3] + r);
      store_vector(sums_.of[3] + r, lanes(cells_.factor) * fused(-lanes(cells_.delta), w, wd));
    }
  }

  /// Whether row r's sum of w * z has lost nothing so.
  bool is_product_sound(int64_t r) const {
    return !plan_.use_variance ||
           (is_joinable(double(cells_.factor[r])) && is_finite(sums_.of[3][r]));
  }

  /// The same of `count` rows.
  bool are_products_sound(int64_t count) const {
    Vector<int64_t> are_sound = kDoubleIndices >= 0;
    for (int64_t r = 0; r < count && plan_.use_variance; r += kDoubles) {
      const Doubles product = load_vector<Doubles>(sums_.of[3] + r);
      are_sound &= (is_joinable(as_doubles(load_vector<HalfFloats>(cells_.factor + r))) &
                    (product - product == 0)) |
                   (kDoubleIndices >= count - r);
    }
    return all_of(are_sound);
  }

  /// The means of w and w * z of `count` rows from their sums.
  void take_means(int64_t count) {
    for (int64_t r = 0; r < count; r += kDoubles) {
      const Doubles scale = as_doubles(load_vector<HalfFloats>(cells_.scale + r));
      const auto mean = [&](int k) {
        return -as_floats(load_vector<Doubles>(sums_.of[k] + r) * scale * share_);
      };
      if (plan_.use_mean) store_vector(cells_.shift + r, mean(2));
      if (plan_.use_variance) store_vector(cells_.slope + r, mean(3));
    }
  }

  float scale(int64_t r) const { return cells_.scale[r]; }
  float bias(int64_t r) const { return cells_.bias[r]; }
  Normalizer<float> normalizer(int64_t r) const {
    return {cells_.pivot[r], cells_.delta[r], cells_.factor[r]};
  }
  CellState<float> state(int64_t r) const {
    return {normalizer(r), -cells_.shift[r], -cells_.slope[r]};
  }

  /// What dx of `count` rows is made with, but for where it stands. Returns whether the factors of
  /// all of them may be joined.
  template <class T>
  bool join(int64_t count, DxRows<T>& to) const {
    Vector<int64_t> are_sound = kDoubleIndices >= 0;
    for (int64_t r = 0; r < count; r += kDoubles) {
      const auto lanes = [&](const float* of) { return load_vector<HalfFloats>(of + r); };
      const Doubles factor = as_doubles(lanes(cells_.factor)),
                    mean_w = -as_doubles(lanes(cells_.shift)),
                    mean_wz = -as_doubles(lanes(cells_.slope)),
                    delta = as_doubles(lanes(cells_.delta)),
                    scale = as_doubles(lanes(cells_.scale)), product = factor * factor * mean_wz;
      const HalfFloats of_d = as_floats(-product),
                       rest = as_floats(delta * product - factor * mean_w),
                       of_h = as_floats(factor * scale);
      are_sound &= (are_kept(of_d, mean_wz == 0) & are_kept(rest, mean_w == 0) &
                    are_kept(of_h, scale == 0)) |
                   (kDoubleIndices >= count - r);
      const HalfFloats of_z = lanes(cells_.delta) * lanes(cells_.factor);
      store_vector(to.pivot + r, lanes(cells_.pivot));
      store_vector(to.slope + r, of_d);
      store_vector(to.shift + r, rest + HalfFloats{});  // no negative zero
      store_vector(to.factor + r, of_h);
      store_vector(to.normal_factor + r, lanes(cells_.factor));
      store_vector(to.normal_shift + r,
                   HalfFloats{} - (lanes(cells_.delta) == 0 ? HalfFloats{} : of_z));
    }
    return all_of(are_sound);
  }

 private:
  /// is_kept() of joined.h.
  static Vector<int64_t> are_kept(HalfFloats product, Vector<int64_t> are_zero) {
    const Doubles v = as_doubles(product), size = v < 0 ? -v : v;
    constexpr double kLeast = std::numeric_limits<float>::min();
    return ((size >= kLeast) | are_zero) & (size <= kMost32);
  }

  const MvnGradPlan& plan_;
  const Operands& operands_;
  bool is_own_;
  double n_, share_;  // elements of a row, and what each counts of its mean
  ColumnConstants<kMostBatched> cells_{};
  alignas(64) float guess_[kMostBatched] = {};
  BatchSums sums_;
};

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
