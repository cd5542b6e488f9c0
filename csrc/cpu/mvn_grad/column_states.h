// What the cells of columns have of their own, in an array for each part: loops over cells take as
// many at a time as vectors hold.
#pragma once

#include <algorithm>
#include <cstddef>

#include "cpu/mvn_grad/cell_states.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

/// Arrays one after the other in memory that is taken at once: what a call takes in pieces, the C
/// library gives back to the system, and the next one waits for its pages again. Without memory it
/// counts the bytes.
class Carver {
 public:
  explicit Carver(std::byte* memory) : memory_(memory) {}

  template <class T>
  T* take(int64_t n) {
    T* const array = memory_ ? reinterpret_cast<T*>(memory_ + bytes_) : nullptr;
    bytes_ += (n * int64_t(sizeof(T)) + 63) / 64 * 64;
    return array;
  }
  int64_t bytes() const { return bytes_; }

 private:
  std::byte* memory_;
  int64_t bytes_ = 0;
};

/// CellState of all cells, before it is known.
template <class A>
struct ColumnStates {
  A *pivots, *deltas, *factors, *means_w, *means_wz;

  ColumnStates() = default;
  ColumnStates(int64_t cells, Carver& carver) {
    for (A** part : {&pivots, &deltas, &factors, &means_w, &means_wz})
      *part = carver.take<A>(cells);
  }

  /// Those of n cells from the first one on.
  void clear(int64_t first, int64_t n) const {
    for (A* part : {pivots, deltas, means_w, means_wz}) std::fill_n(part + first, n, A(0));
    std::fill_n(factors + first, n, A(1));
  }

  void set(int64_t cell, const CellState<A>& state) const {
    pivots[cell] = state.normal.pivot;
    deltas[cell] = state.normal.delta;
    factors[cell] = state.normal.factor;
    means_w[cell] = state.mean_w;
    means_wz[cell] = state.mean_wz;
  }
};

/// Cells that are taken together.
inline constexpr int64_t kTogether = 256;

/// Sums of some cells, of n elements each, and what follows from them.
template <class A>
class SumsOfCells {
  static constexpr bool kHasLanes = std::is_same_v<A, float>;

 public:
  alignas(64) double sum[kTogether], square[kTogether];  // of deviations from pivots
  alignas(64) double delta[kTogether];                   // from those to the means

  SumsOfCells(const MvnGradPlan& plan, int64_t count)
      : plan_(plan), n_(double(plan.cell_size)), share_(1 / n_), count_(count) {
    for (double* const all : {sum, square}) std::fill(all + count, all + kTogether, 0.0);
  }

  /// Whether all pivots are within two deviations of the means.
  bool are_near() const {
    for (int64_t c = 0; c < count_; ++c)
      if (!is_near(c)) return false;
    return true;
  }
  bool is_near(int64_t c) const {
    const double distance = mean(c), variance = square[c] * share_ - distance * distance;
    return distance * distance <= 4 * std::max(variance, 0.0);
  }
  /// From cell c's pivot.
  double mean(int64_t c) const { return sum[c] * share_; }

  /// Normalizers, of which the pivots stand there already.
  void normalize(A* pivots, A* deltas, A* factors) {
    if constexpr (kHasLanes) {
      ColumnConstants<kTogether> cells;
      std::copy_n(pivots, count_, cells.pivot);
      std::fill(cells.pivot + count_, cells.pivot + kTogether, 0.0f);
      for (int64_t c = 0; c < count_; c += kDoubles) {
        const LaneMoments m(plan_.use_mean, n_, load_vector<Doubles>(sum + c),
                            load_vector<Doubles>(square + c));
        store_vector(delta + c, m.delta);
        take_moments(plan_, m, c, cells);
      }
      std::copy_n(cells.pivot, count_, pivots);
      std::copy_n(cells.delta, count_, deltas);
      std::copy_n(cells.factor, count_, factors);
    } else {
      for (int64_t c = 0; c < count_; ++c) {
        const Moments<A> m = plan_.use_mean ? moments_about<A>(n_, pivots[c], sum[c], square[c])
                                            : Moments<A>{n_, 0, 0, square[c]};
        const Normalizer<A> normal = normalizer_of(m, plan_.use_variance, plan_.epsilon);
        delta[c] = m.delta;
        pivots[c] = normal.pivot;
        deltas[c] = normal.delta;
        factors[c] = normal.factor;
      }
    }
  }

 private:
  const MvnGradPlan& plan_;
  double n_, share_;  // elements of a cell, and what each counts of its mean
  int64_t count_;
};

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
