// Cells of planes: statistics and sums of a cell's slices, joined in their order, then dx. Where
// the gradient passes an activation as it is, one pass gives all sums.
#pragma once

#include <memory>

#include "cpu/memory/tuning.h"
#include "cpu/mvn_grad/plane_cell.h"
#include "cpu/mvn_grad/plane_slices.h"
#include "cpu/threads/arena.h"
#include "cpu/threads/interrupt.h"
#include "cpu/threads/parallel.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

using tuning::mvn_grad::kBatchedElements;
using tuning::mvn_grad::kFewCells;
using tuning::mvn_grad::kLargeSlices;
using tuning::mvn_grad::kMostBatchedCells;

template <class T>
class PlaneCells {
 public:
  using A = Acc<T>;
  using State = CellState<A>;
  using Slice = PlaneSlice<T>;

  PlaneCells(const MvnGradPlan& plan, const Operands& operands)
      : plan_(plan),
        operands_(operands),
        planes_(plan),
        slices_of_(plan, operands),
        is_split_(plan.cells < kFewCells * num_threads() &&
                  plan.cell_size >= kLargeSlices * kSlice),
        batch_(std::clamp<int64_t>(kBatchedElements / plan.cell_size, 1, kMostBatchedCells)) {}

  void run() const {
    const int64_t shares = plan_.has_totals() ? shares_of(plan_, plan_.cells) : plan_.cells;
    const Totals<A> totals(plan_, plan_.has_totals() ? shares : 0, operands_);
    const auto work = [&](int64_t begin, int64_t end, const auto& each) {
      const int64_t kept = slices_of_.keeps_apart() ? batch_ * plan_.cell_size : 0;
      const BatchRoom room{
          std::unique_ptr<SliceSums[]>(new SliceSums[size_t(batch_ * planes_.slices)]),
          std::unique_ptr<A[]>(kept > 0 ? new A[size_t(kept)] : nullptr)};
      for (int64_t s = begin; s < end; ++s)
        run_cells(2, part_begin(plan_.cells, s, shares), part_begin(plan_.cells, s + 1, shares),
                  {totals, s}, room, each);
    };
    if (is_split_)
      work(0, shares, [&](const auto& fn) { for_blocks(fn); });
    else
      parallel_for(shares, plan_.compulsory_bytes(), [&](int64_t begin, int64_t end) {
        const Room<PlaneBuffers<A>> rows;
        work(begin, end, [&](const auto& fn) { fn(0, planes_.slices, *rows); });
      });
    totals.finish();
  }

  using Share = TotalsShare<A>;

  /// One cell by itself: dx, and what it adds to the first of the totals or to both.
  [[gnu::noinline, gnu::cold]] void run_cell(int64_t cell, const Share& share, int totals) const {
    const int64_t kept = slices_of_.keeps_apart() ? plan_.cell_size : 0;
    const BatchRoom room{std::unique_ptr<SliceSums[]>(new SliceSums[size_t(planes_.slices)]),
                         std::unique_ptr<A[]>(kept > 0 ? new A[size_t(kept)] : nullptr)};
    const Room<PlaneBuffers<A>> rows;
    run_cells(totals, cell, cell + 1, share, room,
              [&](const auto& fn) { fn(0, planes_.slices, *rows); });
  }

 private:
  /// What the cells of a batch take: sums of their slices, and h where it is kept apart.
  struct BatchRoom {
    std::unique_ptr<SliceSums[]> sums;
    std::unique_ptr<A[]> kept;
  };

  using Cell = PlaneCell<A>;

  /// Calls fn(begin, end, rows) for the slices of a cell, from several threads.
  template <class Fn>
  void for_blocks(const Fn& fn) const {
    const int64_t blocks = std::min(planes_.slices, plan_.cell_size / kSlice);
    parallel_for(blocks, plan_.compulsory_bytes() / plan_.cells, [&](int64_t begin, int64_t end) {
      const Room<PlaneBuffers<A>> rows;
      fn(part_begin(planes_.slices, begin, blocks), part_begin(planes_.slices, end, blocks), *rows);
    });
  }

  template <class Each>
  void run_cells(int end_totals, int64_t begin, int64_t end, const Share& share,
                 const BatchRoom& room, const Each& each) const {
    GradWalk walk(plan_.kept, plan_.kept_rank, begin);
    Pace pace;
    Cell cells[kMostBatchedCells];
    while (begin < end) {
      const int64_t n = std::min(batch_, end - begin);
      for (int64_t k = 0; k < n; ++k, walk.advance()) {
        Cell& cell = cells[k];
        cell.at.take(walk.offsets());
        cell.state = State{};
        if (plan_.are_given || plan_.has_sums)
          cell.state = state_given<A>(plan_, operands_, cell.at);
        cell.sums = room.sums.get() + k * planes_.slices;
        cell.slices = planes_.slices;
        cell.kept = room.kept ? room.kept.get() + k * plan_.cell_size : nullptr;
        cell.needs_sums = plan_.has_totals() || plan_.has_own_sums();
      }
      pace.add(n * plan_.cell_size);
      run_batch(cells, n, each);
      for (int64_t k = 0; k < n && plan_.has_totals(); ++k) add_totals(end_totals, cells[k], share);
      begin += n;
    }
  }

  /// Step by step, so that what follows from the sums of one short cell does not wait for that of
  /// the one before. each(fn) calls fn(begin, end, rows) for all slices.
  template <class Each>
  void run_batch(Cell* cells, int64_t n, const Each& each) const {
    const auto for_cells = [&](const auto& fn) {
      for (int64_t k = 0; k < n; ++k) fn(cells[k]);
    };
    if (plan_.has_own_statistics()) {
      for_cells([&](Cell& cell) { add_about(cell, plan_.use_mean ? guess(cell.at) : A(0), each); });
      for_cells([&](Cell& cell) { take_statistics(cell, each); });
    }
    if (plan_.has_own_sums()) {
      for_cells([&](Cell& cell) {
        if (cell.needs_sums) each(work_on(cell, false));
      });
      for_cells([&](Cell& cell) { cell.set_means(plan_); });
    }
    for_cells([&](Cell& cell) {
      if (cell.needs_sums || plan_.wants_dx) each(work_on(cell, plan_.wants_dx));
    });
  }

  /// What adds up slices, if their sums are still needed, and writes their dx.
  auto work_on(const Cell& cell, bool is_written) const {
    return [=, this, &cell](int64_t begin, int64_t end, PlaneBuffers<A>& rows) {
      JoinedDx<A> formula(cell.state);
      planes_.for_slices(cell.at, begin, end, [&](int64_t i, const SliceOffsets& at) {
        checkpoint_for(at.n * at.planes);
        const Slice slice = slices_of_(at, cell.kept ? cell.kept + planes_.begin_of(i) : nullptr);
        if (cell.needs_sums) slices_of_.add_products(slice, cell.state, rows, cell.sums[i]);
        if (is_written) slices_of_.write(slice, cell.state, formula, rows);
      });
    };
  }

  /// Whether one pass gives all sums.
  bool has_products() const {
    return !reads_input(plan_.activation.kind) && (plan_.has_totals() || plan_.has_own_sums());
  }

  /// Adds up a cell's deviations from a pivot, and h * d with them.
  template <class Each>
  void add_about(Cell& cell, A pivot, const Each& each) const {
    const bool with_products = has_products();
    cell.pivot = pivot;
    each([&](int64_t begin, int64_t end, PlaneBuffers<A>&) {
      planes_.for_slices(cell.at, begin, end, [&](int64_t i, const SliceOffsets& at) {
        checkpoint_for(at.n * at.planes);
        const Slice slice = slices_of_(at);
        cell.sums[i].scale = slice.scale;
        if (with_products)
          add_all(slice, pivot, cell.sums[i]);
        else
          add_deviations(slice, pivot, cell.sums[i]);
      });
    });
  }

  /// Statistics from one pass about a guess, and where that was far from the mean, from another one
  /// about the mean.
  template <class Each>
  void take_statistics(Cell& cell, const Each& each) const {
    Moments<A> m = cell.moments(plan_);
    if (plan_.use_mean && !(m.delta * m.delta <= 4 * (m.m2 / m.n))) {
      add_about(cell, finite_or_0(static_cast<A>(double(cell.pivot) + m.delta)), each);
      m = cell.moments(plan_);
    }
    cell.state.normal = normalizer_of(m, plan_.use_variance, plan_.epsilon);
    if (has_products() && cell.take_products(m.delta)) cell.needs_sums = false;
  }

  static A finite_or_0(A v) { return is_finite(double(v)) ? v : A(0); }

  /// The mean of 32 elements at eight places, or of the first four of few: of a constant cell
  /// exactly what it is made of.
  A guess(const GradOffsets& cell) const {
    constexpr int kPlaces = GradPlanes::kPlaces;
    const T* const x = static_cast<const T*>(operands_.inputs[0]) + cell.x;
    const auto four = [&](int k) {
      const T* const from = x + planes_.place[k];
      return (load_as_acc(from[0]) + load_as_acc(from[2])) +
             (load_as_acc(from[1]) + load_as_acc(from[3]));
    };
    if (plan_.cell_size < 16 * kPlaces) return finite_or_0(four(0) / A(4));
    const A sum =
        ((four(0) + four(4)) + (four(2) + four(6))) + ((four(1) + four(5)) + (four(3) + four(7)));
    return finite_or_0(sum / A(4 * kPlaces));
  }

  void add_totals(int end, const Cell& cell, const Share& share) const {
    const bool are_sums = plan_.kind == MvnGradKind::sums;
    Pace pace;
    planes_.for_slices(cell.at, 0, planes_.slices, [&](int64_t i, const SliceOffsets& at) {
      pace.add(1);
      const SliceSums& sums = cell.sums[i];
      const double by = are_sums ? sums.scale : slices_of_.slope();
      const double values[2] = {by * sums.hz, by * sums.h};
      for (int k = 0; k < end; ++k)
        if (share.totals.is_wanted(k))
          share.totals.add_one(share.index, k, at.totals[k], values[are_sums ? 1 - k : k]);
    });
  }

  const MvnGradPlan& plan_;
  const Operands& operands_;
  GradPlanes planes_;
  PlaneSlices<T> slices_of_;
  bool is_split_;
  int64_t batch_;  // cells that are taken together
};

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
