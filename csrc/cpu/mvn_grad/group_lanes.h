// Short planes of a group that have a scale or bias each, a plane in each lane.
#pragma once

#include <memory>

#include "cpu/mvn_grad/plane_cell.h"
#include "cpu/mvn_grad/plane_lanes.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

/// Cells whose planes follow each other along one dimension, as the channels of a group do.
template <class T>
class GroupLanes {
 public:
  static constexpr int64_t kLeastCells = 1;  // of a share

  explicit GroupLanes(const ShortPlanes<T>& planes)
      : c_(planes),
        plan_(planes.plan),
        inner_(plan_.reduced[plan_.reduced_rank - 2]),
        step_(planes.cell_step()),
        scale_(planes.operands.inputs[2], plan_.scale_dtype, &kOne),
        bias_(plan_.has_bias ? planes.operands.inputs[3] : nullptr, plan_.bias_dtype, &kZero),
        most_(std::clamp<int64_t>(tuning::mvn_grad::kBatchedElements / plan_.cell_size, 1, kMost)),
        fetches_cells_(c_.is_large && plan_.cell_size * int64_t(sizeof(T)) <= kMostFetchedBytes),
        values_(new Values[size_t(most_ * inner_.size)]) {
    if (c_.keeps_h && sizeof(T) < sizeof(float))
      kept_.reset(new float[size_t(most_ * plan_.cell_size)]);
  }

  /// Some cells from the first on, up to `most`; returns how many. fail(cell) is called for each
  /// whose factors must not be joined. Step by step, so that what follows from the sums of one
  /// short cell does not wait for that of the one before.
  template <class Fail>
  int64_t run(int64_t first, int64_t most, const TotalsShare<float>& share, const Fail& fail) {
    const int64_t count = std::min(most, most_);
    place(first, count);
    const auto for_cells = [&](const auto& fn) {
      for (int64_t k = 0; k < count; ++k) fn(cells_[k]);
    };
    if (!c_.x) {
      for_cells([&](Cell& cell) { add_up<Through, PlaneTerms::gradient>(cell, 0); });
    } else {
      if (!plan_.are_given) {
        for_cells([&](Cell& cell) { add_own(cell, c_.guess(cell.at.x)); });
        for_cells([&](Cell& cell) { take_statistics(cell); });
      }
      if (plan_.are_given || c_.has_pass()) for_cells([&](Cell& cell) { add_about_mean(cell); });
      for_cells([&](Cell& cell) { take_means(cell); });
    }
    for (int64_t k = 0; k < count; ++k) {
      add_totals(cells_[k], share);
      if (c_.x && !cells_[k].is_sound)
        fail(first + k);
      else if (c_.dx)
        with_pass_of(plan_, [&]<class Pass>() { write<Pass>(cells_[k]); });
    }
    return count;
  }

 private:
  static constexpr float kOne = 1, kZero = 0;
  static constexpr int64_t kMost = tuning::mvn_grad::kMostBatchedCells;
  /// Vectors that the sums of a cell's d and d * d take turns in: additions need not wait then.
  static constexpr int64_t kTurns = 4;
  /// Of a cell's x: of longer ones the processor foresees the most.
  static constexpr int64_t kMostFetchedBytes = 16384;

  /// Of a plane: hz is the sum of h * d at first.
  struct Values {
    double h, hz, scale, bias;
  };

  struct Cell {
    GradOffsets at;
    Values* values;
    float* kept;     // h of its planes, one after the other, or null
    double pivot_d;  // from the pivot of its sums to the mean
    Moments<float> moments;
    CellState<float> state;
    bool is_sound;
  };

  void place(int64_t first, int64_t count) {
    GradWalk walk(plan_.kept, plan_.kept_rank, first);
    for (int64_t k = 0; k < count; ++k, walk.advance()) {
      Cell& cell = cells_[k];
      cell.at = walk.offsets();
      cell.state = {};
      if (plan_.are_given) cell.state.normal = normalizer_given<float>(plan_, c_.operands, cell.at);
      cell.is_sound = true;
      cell.kept = kept_ ? kept_.get() + k * plan_.cell_size : nullptr;
      cell.values = values_.get() + k * inner_.size;
      for (int64_t p = 0; p < inner_.size && c_.x; ++p) {
        cell.values[p].scale = plan_.has_scale ? scale_.at(cell.at.scale + p * inner_.scale) : 1;
        cell.values[p].bias = plan_.has_bias ? bias_.at(cell.at.bias + p * inner_.bias) : 0;
      }
    }
  }

  /// Where h of plane p stays, or null.
  float* kept(const Cell& cell, int64_t p) const {
    if (!c_.keeps_h) return nullptr;
    if constexpr (std::is_same_v<T, float>)
      return c_.dx + cell.at.dx + p * inner_.dx;
    else
      return cell.kept + p * c_.n;
  }

  void clear_turns() {
    for (int k = 0; k < 2; ++k) {
      std::fill_n(sums_.of[k], kTurns, 0.0);
      std::fill_n(sums_.last[k], kTurns, Floats{});
    }
  }

  /// Adds up planes about a pivot.
  template <class Pass, PlaneTerms kTerms>
  void add_up(Cell& cell, float pivot) {
    const int64_t stretch = std::max<int64_t>(1, kLaneStretch * kTurns / (kMostBatched * c_.n));
    double sum = 0, square = 0;
    clear_turns();
    const T *x = c_.x_at(cell.at.x), *grad = c_.grad + cell.at.grad;
    T* const dx = c_.dx && c_.is_large ? c_.dx + cell.at.dx : nullptr;
    for (int64_t p = 0, run = 1; p < inner_.size; p += kMostBatched, ++run) {
      const int64_t count = std::min(kMostBatched, inner_.size - p);
      for (int k = 2; k < 4; ++k) std::fill_n(sums_.of[k], count, 0.0);
      for (int64_t k = 0; k < count; ++k, grad += inner_.grad) {
        if (dx) fetch_plane<true>(dx + (p + k) * inner_.dx, c_.n);
        const Values& v = cell.values[p + k];
        const Pass pass =
            c_.template pass_of<Pass>(cell.state.normal, v.scale, v.bias, cell.is_sound);
        add_plane<kTerms, true>(x, grad, c_.n, pivot, pass, kept(cell, p + k), sums_.last,
                                k % kTurns, k);
        if (x) x += inner_.x;
      }
      sums_.finish<2>(count, 2);
      for (int64_t k = 0; k < count; ++k) {
        cell.values[p + k].h = sums_.of[2][k];
        cell.values[p + k].hz = sums_.of[3][k];
      }
      if (run % stretch && p + kMostBatched < inner_.size) continue;
      sums_.finish<2>(kTurns, 0);
      for (int64_t l = 0; l < kTurns; ++l) {
        sum += sums_.of[0][l];
        square += sums_.of[1][l];
      }
      clear_turns();
    }
    cell.moments = moments_about<float>(double(plan_.cell_size), pivot, sum, square);
    cell.pivot_d = cell.moments.delta;
  }

  /// What statistics follow from, and products, if the gradient passes as it is.
  void add_own(Cell& cell, float pivot) {
    if (c_.has_pass())
      add_up<Through, PlaneTerms::deviations>(cell, pivot);
    else
      add_up<Through, PlaneTerms::all>(cell, pivot);
  }

  /// From sums, which are found again where the pivot was far from the mean.
  void take_statistics(Cell& cell) {
    const Moments<float>& m = cell.moments;
    if (!is_near(m.delta, m.m2 / double(plan_.cell_size)))
      add_own(cell, guess_of(double(m.pivot) + m.delta, 1));
    cell.state.normal = normalizer_of(cell.moments, true, plan_.epsilon);
  }

  void add_about_mean(Cell& cell) {
    with_pass_of(plan_, [&]<class Pass>() {
      add_up<Pass, PlaneTerms::products>(cell, cell.state.normal.pivot);
    });
    cell.pivot_d = cell.state.normal.delta;
  }

  /// The means of w and w * z, and products of z.
  void take_means(Cell& cell) {
    const double factor = cell.state.normal.factor;
    double w = 0, wz = 0, all = 0;
    for (int64_t p = 0; p < inner_.size; ++p) {
      Values& v = cell.values[p];
      v.hz = factor * fused(-cell.pivot_d, v.h, v.hz);
      all += v.hz;
      w += v.h * v.scale;
      wz += v.hz * v.scale;
    }
    const auto n = double(plan_.cell_size);
    cell.state.mean_w = static_cast<float>(w / n);
    cell.state.mean_wz = static_cast<float>(wz / n);
    cell.is_sound &= is_joinable(factor) && is_finite(all);
    JoinedDx<float> formula(cell.state);
    for (int64_t p = 0; p < inner_.size; ++p) cell.is_sound &= formula.take(cell.values[p].scale);
  }

  void add_totals(const Cell& cell, const TotalsShare<float>& share) const {
    for (int t = 0; t < 2; ++t) {
      if (!share.totals.is_wanted(t) || !(cell.is_sound || c_.keeps_total(t))) continue;
      for (int64_t p = 0; p < inner_.size; ++p)
        share.totals.add_one(share.index, t, cell.at.totals[t] + p * inner_.totals[t],
                             t == 0 ? cell.values[p].hz : cell.values[p].h);
    }
  }

  template <class Pass>
  void write(const Cell& cell) const {
    JoinedDx<float> formula(cell.state);
    const T *x = c_.x + cell.at.x, *grad = c_.grad + cell.at.grad;
    T* dx = c_.dx + cell.at.dx;
    for (int64_t p = 0; p < inner_.size; ++p) {
      if (fetches_cells_) {
        fetch_plane(x + most_ * step_.x, c_.n);
        fetch_plane(grad + most_ * step_.grad, c_.n);
      }
      const Values& v = cell.values[p];
      bool is_sound = formula.take(v.scale);
      const DxLanes lanes = {all_lanes(formula.pivot), all_lanes(formula.slope),
                             all_lanes(formula.shift), all_lanes(formula.factor)};
      if constexpr (std::is_same_v<Pass, PlaneSwishPass>)
        write_dx(x, kept(cell, p), dx, c_.n, lanes, Through{});
      else
        write_dx(x, grad, dx, c_.n, lanes,
                 c_.template pass_of<Pass>(cell.state.normal, v.scale, v.bias, is_sound));
      x += inner_.x;
      grad += inner_.grad;
      dx += inner_.dx;
    }
  }

  const ShortPlanes<T>& c_;
  const MvnGradPlan& plan_;
  MvnGradAxis inner_, step_;  // from plane to plane, and from cell to cell
  Parameter<T> scale_, bias_;
  int64_t most_;        // cells that are taken together
  bool fetches_cells_;  // those after them
  std::unique_ptr<Values[]> values_;
  std::unique_ptr<float[]> kept_;
  Cell cells_[kMost];
  BatchSums sums_;
};

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
