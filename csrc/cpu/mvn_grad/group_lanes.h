// Short planes of a group that have a scale each, a plane in each lane.
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
        most_(std::clamp<int64_t>(tuning::mvn_grad::kBatchedElements / plan_.cell_size, 1, kMost)),
        fetches_cells_(c_.is_large && plan_.cell_size * int64_t(sizeof(T)) <= kMostFetchedBytes),
        values_(new Values[size_t(most_ * inner_.size)]) {}

  /// Some cells from the first on, up to `most`; returns how many. fail(cell) is called for each
  /// whose factors must not be joined. Step by step, so that what follows from the sums of one
  /// short cell does not wait for that of the one before.
  template <class Fail>
  int64_t run(int64_t first, int64_t most, const TotalsShare<float>& share, const Fail& fail) {
    const int64_t count = std::min(most, most_);
    GradWalk walk(plan_.kept, plan_.kept_rank, first);
    for (int64_t k = 0; k < count; ++k, walk.advance()) {
      Cell& cell = cells_[k];
      cell.at = walk.offsets();
      cell.values = values_.get() + k * inner_.size;
      if (plan_.are_given) cell.state.normal = normalizer_given<float>(plan_, c_.operands, cell.at);
      add_up(cell, plan_.are_given ? cell.state.normal.pivot : c_.x ? c_.guess(cell.at.x) : 0);
    }
    for (int64_t k = 0; k < count && c_.x; ++k) take_state(cells_[k]);
    for (int64_t k = 0; k < count; ++k) {
      add_totals(cells_[k], share);
      if (c_.x && !cells_[k].is_sound)
        fail(first + k);
      else if (c_.dx)
        write(cells_[k]);
    }
    return count;
  }

 private:
  static constexpr float kOne = 1;
  static constexpr int64_t kMost = tuning::mvn_grad::kMostBatchedCells;
  /// Vectors that the sums of a cell's d and d * d take turns in: additions need not wait then.
  static constexpr int64_t kTurns = 4;
  /// Of a cell's x: of longer ones the processor foresees the most.
  static constexpr int64_t kMostFetchedBytes = 16384;

  /// Of a plane: hz is the sum of h * d at first.
  struct Values {
    double h, hz, scale;
  };

  struct Cell {
    GradOffsets at;
    Values* values;
    float pivot;
    Moments<float> moments;
    CellState<float> state;
    bool is_sound;
  };

  void clear_turns() {
    for (int k = 0; k < 2; ++k) {
      std::fill_n(sums_.of[k], kTurns, 0.0);
      std::fill_n(sums_.last[k], kTurns, Floats{});
    }
  }

  void add_up(Cell& cell, float pivot) {
    with_terms(plan_, [&](auto terms) { add_up(cell, pivot, terms); });
  }

  template <class Terms>
  void add_up(Cell& cell, float pivot, Terms) {
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
        add_plane<Terms::value, true>(x, grad, c_.n, pivot, sums_.last, k % kTurns, k);
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
    cell.pivot = pivot;
    cell.moments = moments_about<float>(double(plan_.cell_size), pivot, sum, square);
  }

  /// The normalizer, whose statistics are data or follow from sums; these are found again where the
  /// pivot was far from the mean. Returns how far the mean is from the pivot.
  double take_normalizer(Cell& cell) {
    cell.state.mean_w = cell.state.mean_wz = 0;
    if (plan_.are_given) return double(cell.state.normal.delta);
    if (!is_near(cell.moments.delta, cell.moments.m2 / double(plan_.cell_size)))
      add_up(cell, guess_of(double(cell.pivot) + cell.moments.delta, 1));
    cell.state.normal = normalizer_of(cell.moments, true, plan_.epsilon);
    return cell.moments.delta;
  }

  /// The means of w and w * z, and products of z.
  void take_state(Cell& cell) {
    const double delta = take_normalizer(cell), factor = cell.state.normal.factor;
    double w = 0, wz = 0, all = 0;
    for (int64_t p = 0; p < inner_.size; ++p) {
      Values& v = cell.values[p];
      v.scale = plan_.has_scale ? scale_.at(cell.at.scale + p * inner_.scale) : 1;
      v.hz = factor * fused(-delta, v.h, v.hz);
      all += v.hz;
      w += v.h * v.scale;
      wz += v.hz * v.scale;
    }
    const auto n = double(plan_.cell_size);
    cell.state.mean_w = static_cast<float>(w / n);
    cell.state.mean_wz = static_cast<float>(wz / n);
    cell.is_sound = is_joinable(factor) && is_finite(all);
    JoinedDx<float> formula(cell.state);
    for (int64_t p = 0; p < inner_.size; ++p) cell.is_sound &= formula.take(cell.values[p].scale);
  }

  void add_totals(const Cell& cell, const TotalsShare<float>& share) const {
    for (int t = 0; t < 2; ++t)
      for (int64_t p = 0; p < inner_.size && share.totals.is_wanted(t) && (t == 1 || cell.is_sound);
           ++p)
        share.totals.add_one(share.index, t, cell.at.totals[t] + p * inner_.totals[t],
                             t == 0 ? cell.values[p].hz : cell.values[p].h);
  }

  void write(const Cell& cell) const {
    JoinedDx<float> formula(cell.state);
    const Floats pivot = all_lanes(formula.pivot), slope = all_lanes(formula.slope),
                 shift = all_lanes(formula.shift);
    const T *x = c_.x + cell.at.x, *grad = c_.grad + cell.at.grad;
    T* dx = c_.dx + cell.at.dx;
    for (int64_t p = 0; p < inner_.size; ++p) {
      if (fetches_cells_) {
        fetch_plane(x + most_ * step_.x, c_.n);
        fetch_plane(grad + most_ * step_.grad, c_.n);
      }
      formula.take(cell.values[p].scale);
      write_dx(x, grad, dx, c_.n, pivot, slope, shift, all_lanes(formula.factor));
      x += inner_.x;
      grad += inner_.grad;
      dx += inner_.dx;
    }
  }

  const ShortPlanes<T>& c_;
  const MvnGradPlan& plan_;
  MvnGradAxis inner_, step_;  // from plane to plane, and from cell to cell
  Parameter<T> scale_;
  int64_t most_;        // cells that are taken together
  bool fetches_cells_;  // those after them
  std::unique_ptr<Values[]> values_;
  Cell cells_[kMost];
  BatchSums sums_;
};

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
