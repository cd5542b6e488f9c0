// Short planes of neighbouring cells, a cell in each lane: of each cell a plane, then the next one.
#pragma once

#include <memory>

#include "cpu/mvn_grad/plane_lanes.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

/// Cells whose planes share scale and bias.
template <class T>
class CellLanes {
 public:
  /// Of a share: with fewer lanes all is done as often.
  static constexpr int64_t kLeastCells = kMostBatched / 2;

  explicit CellLanes(const ShortPlanes<T>& planes)
      : c_(planes),
        plan_(planes.plan),
        states_(planes.plan, planes.operands, true),
        depth_(plan_.cell_size / c_.n),
        most_(std::clamp<int64_t>(
            tuning::mvn_grad::kLanesBytes / (2 * plan_.cell_size * int64_t(sizeof(T))),
            kFewestLanes, kMostBatched)) {
    if (c_.keeps_h && sizeof(T) < sizeof(float))
      kept_.reset(new float[size_t(most_ * plan_.cell_size)]);
  }

  /// Some cells from the first on, up to `most`; returns how many. fail(cell) is called for each
  /// whose factors must not be joined.
  template <class Fail>
  int64_t run(int64_t first, int64_t most, const TotalsShare<float>& share, const Fail& fail) {
    place(first, std::min(most, most_));
    if (c_.x)
      find_states();
    else
      add_up<Through>(PlaneTermsAre<PlaneTerms::gradient>{});
    add_totals(share);
    if (c_.dx) with_pass_of(plan_, [&]<class Pass>() { write<Pass>(); });
    for (int64_t k = 0; k < count_ && c_.x; ++k)
      if (!are_sound_[k]) fail(first + k);
    return count_;
  }

 private:
  static constexpr int64_t kFewestLanes = 4;

  void place(int64_t first, int64_t most) {
    const MvnGradAxis step = c_.cell_step();
    count_ = 0;
    const auto place = [&](const GradOffsets& origin, int64_t, int64_t n) {
      at_.set(plan_, count_, n, origin, step);
      at_.set_parameters(count_, n, origin, step);
      count_ += n;
    };
    if (plan_.kept_rank == 0)
      place(GradOffsets{}, 0, 1);
    else
      for_axis_pieces(plan_.kept, plan_.kept_rank, GradOffsets{}, first, most, place);
  }

  /// Calls fn(number, where it stands in its cell, where the next one does) for the planes of a
  /// cell; after the last one comes the first of other cells.
  template <class Fn>
  [[gnu::always_inline]] void for_depth(const Fn& fn) const {
    GradWalk walk(plan_.reduced, plan_.reduced_rank - 1, 0);
    GradOffsets here = walk.offsets();
    for (int64_t i = 0; i < depth_; ++i) {
      GradOffsets next;
      if (i + 1 < depth_) {
        walk.advance();
        next = walk.offsets();
      } else {
        next.add(c_.cell_step(), count_);
      }
      fn(i, here, next);
      here = next;
    }
  }

  void find_states() {
    states_.take(at_, count_);
    if (!plan_.are_given) take_statistics();
    if (plan_.are_given || c_.has_pass()) {
      for (int64_t k = 0; k < count_; ++k) states_.set_guess(k, states_.normalizer(k).pivot);
      with_pass_of(plan_,
                   [&]<class Pass>() { add_up<Pass>(PlaneTermsAre<PlaneTerms::products>{}); });
      states_.take_products(count_);
    }
    states_.take_means(count_);
    join();
  }

  /// And products, if the gradient passes as it is.
  void take_statistics() {
    const auto add = [&] {
      if (c_.has_pass())
        add_up<Through>(PlaneTermsAre<PlaneTerms::deviations>{});
      else
        add_up<Through>(PlaneTermsAre<PlaneTerms::all>{});
    };
    for (int64_t k = 0; k < count_; ++k) states_.set_guess(k, c_.guess(at_.x[k]));
    add();
    bool are_near = true;
    for (int64_t k = 0; k < count_; ++k) are_near &= states_.correct_guess(k);
    if (!are_near) add();  // guesses that were near give the same bits
    states_.take_statistics(count_);
  }

  template <class Pass, class Terms>
  void add_up(Terms) {
    BatchSums& sums = states_.sums();
    const int64_t stretch = std::max<int64_t>(1, kLaneStretch / c_.n);
    for (int k = 0; k < 4; ++k) {
      std::fill_n(sums.of[k], kMostBatched, 0.0);
      std::fill_n(sums.last[k], count_, Floats{});
    }
    for_depth([&](int64_t i, const GradOffsets& here, const GradOffsets& next) {
      for (int64_t k = 0; k < count_; ++k) {
        const T *const x = c_.x_at(at_.x[k]), *const grad = c_.grad + at_.grad[k];
        if (c_.is_large) fetch_plane(grad + next.grad, c_.n);
        if (c_.is_large && x) fetch_plane(x + next.x, c_.n);
        add_plane<Terms::value, false>(x ? x + here.x : nullptr, grad + here.grad, c_.n,
                                       states_.guess(k), pass<Pass>(k), kept(i, k, here), sums.last,
                                       k, k);
      }
      if ((i + 1) % stretch && i + 1 < depth_) return;
      sums.finish<4>(count_, 0);
      for (int k = 0; k < 4; ++k) std::fill_n(sums.last[k], count_, Floats{});
    });
  }

  template <class Pass>
  Pass pass(int64_t k) {
    bool is_sound = true;
    const Pass pass = c_.template pass_of<Pass>(states_.normalizer(k), states_.scale(k),
                                                states_.bias(k), is_sound);
    passes_[k] = is_sound;
    return pass;
  }

  /// Where h of plane i of cell k stays, or null.
  float* kept(int64_t i, int64_t k, const GradOffsets& here) const {
    if (!c_.keeps_h) return nullptr;
    if constexpr (std::is_same_v<T, float>)
      return c_.dx + at_.dx[k] + here.dx;
    else
      return kept_.get() + (i * most_ + k) * c_.n;
  }

  /// Finds what dx is made with, and the cells whose factors may be joined.
  void join() {
    const bool are_all = states_.join(count_, formulas_);
    for (int64_t k = 0; k < count_; ++k)
      are_sound_[k] = (passes_[k] || !c_.has_pass()) && states_.is_product_sound(k) &&
                      (are_all || DxRow<T>().set(nullptr, states_.state(k), states_.scale(k)));
  }

  void add_totals(const TotalsShare<float>& share) {
    for (int t = 0; t < 2; ++t)
      for (int64_t k = 0; k < count_ && share.totals.is_wanted(t); ++k)
        if (are_sound_[k] || c_.keeps_total(t))
          share.totals.add_one(share.index, t, at_.totals[t][k], states_.sums().of[3 - t][k]);
  }

  template <class Pass>
  void write() {
    for_depth([&](int64_t i, const GradOffsets& here, const GradOffsets& next) {
      for (int64_t k = 0; k < count_; ++k) {
        const T* const x = c_.x + at_.x[k] + here.x;
        const T* const grad = c_.grad + at_.grad[k] + here.grad;
        T* const dx = c_.dx + at_.dx[k];
        if (c_.is_large) fetch_plane<true>(dx + next.dx, c_.n);
        if (!are_sound_[k]) continue;
        const DxRow<T> f = formulas_[k];
        const DxLanes lanes = {all_lanes(f.pivot), all_lanes(f.slope), all_lanes(f.shift),
                               all_lanes(f.factor)};
        if constexpr (std::is_same_v<Pass, PlaneSwishPass>)
          write_dx(x, kept(i, k, here), dx + here.dx, c_.n, lanes, Through{});
        else
          write_dx(x, grad, dx + here.dx, c_.n, lanes, pass<Pass>(k));
      }
    });
  }

  const ShortPlanes<T>& c_;
  const MvnGradPlan& plan_;
  RowStates states_;
  int64_t depth_, most_, count_ = 0;
  BatchPlaces at_;
  DxRows<T> formulas_;
  bool are_sound_[kMostBatched];
  bool passes_[kMostBatched];  // as factors say that must be joined
  std::unique_ptr<float[]> kept_;
};

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
