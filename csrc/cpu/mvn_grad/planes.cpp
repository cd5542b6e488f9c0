// The gradient of normalization by planes: statistics and sums of a cell's slices, joined in their
// order, then dx. Where the gradient passes an activation as it is, one pass gives all sums.
#include "cpu/mvn_grad/planes.h"

#include <memory>

#include "cpu/memory/tuning.h"
#include "cpu/mvn_grad/plane_slices.h"
#include "cpu/threads/arena.h"
#include "cpu/threads/interrupt.h"
#include "cpu/threads/parallel.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

using tuning::mvn_grad::kFewCells;
using tuning::mvn_grad::kLargeSlices;

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
                  plan.cell_size >= kLargeSlices * kSlice) {}

  void run() const {
    const int64_t shares = plan_.has_totals() ? shares_of(plan_, plan_.cells) : plan_.cells;
    const Totals<A> totals(plan_, plan_.has_totals() ? shares : 0, operands_);
    const auto work = [&](int64_t begin, int64_t end, const auto& each) {
      const CellRoom room{std::unique_ptr<SliceSums[]>(new SliceSums[size_t(planes_.slices)]),
                          std::unique_ptr<A[]>(
                              slices_of_.keeps_apart() ? new A[size_t(plan_.cell_size)] : nullptr)};
      for (int64_t s = begin; s < end; ++s)
        run_cells(part_begin(plan_.cells, s, shares), part_begin(plan_.cells, s + 1, shares),
                  {totals, s}, room, each);
    };
    if (is_split_)
      work(0, shares, [&](const auto& fn) { for_blocks(fn); });
    else
      parallel_for(shares, plan_.compulsory_bytes(), [&](int64_t begin, int64_t end) {
        work(begin, end, [&](const auto& fn) { fn(0, planes_.slices); });
      });
    totals.finish();
  }

 private:
  /// Where a cell's sums are added to the totals.
  struct Share {
    const Totals<A>& totals;
    int64_t index;
  };

  /// What one cell after the other takes: sums of its slices, and h where it is kept apart.
  struct CellRoom {
    std::unique_ptr<SliceSums[]> sums;
    std::unique_ptr<A[]> kept;
  };

  /// Calls fn(begin, end) for the slices of a cell, from several threads.
  template <class Fn>
  void for_blocks(const Fn& fn) const {
    const int64_t blocks = std::min(planes_.slices, plan_.cell_size / kSlice);
    parallel_for(blocks, plan_.compulsory_bytes() / plan_.cells, [&](int64_t begin, int64_t end) {
      fn(part_begin(planes_.slices, begin, blocks), part_begin(planes_.slices, end, blocks));
    });
  }

  template <class Each>
  void run_cells(int64_t begin, int64_t end, const Share& share, const CellRoom& room,
                 const Each& each) const {
    GradWalk cell(plan_.kept, plan_.kept_rank, begin);
    Pace pace;
    for (int64_t i = begin; i < end; ++i, cell.advance()) {
      pace.add(plan_.cell_size);
      run_cell(cell.offsets(), room, each);
      if (plan_.has_totals()) add_totals(cell.offsets(), room.sums.get(), share);
    }
  }

  /// each(fn) calls fn(begin, end) for all slices.
  template <class Each>
  void run_cell(const GradOffsets& cell, const CellRoom& room, const Each& each) const {
    SliceSums* const sums = room.sums.get();
    A* const kept = room.kept.get();
    State state = state_given<A>(plan_, operands_, cell);
    bool needs_sums = plan_.has_totals() || plan_.has_own_sums();
    if (plan_.has_own_statistics() && find_statistics(cell, state, sums, each)) needs_sums = false;
    if (plan_.has_own_sums()) {
      if (needs_sums) each(work_on(cell, state, sums, kept, false));
      set_means(sums, state);
      needs_sums = false;
    }
    if (needs_sums || plan_.wants_dx)
      each(work_on(cell, state, needs_sums ? sums : nullptr, kept, plan_.wants_dx));
  }

  /// What adds up slices, if there are sums, and writes their dx.
  auto work_on(const GradOffsets& cell, const State& state, SliceSums* sums, A* kept,
               bool is_written) const {
    return [=, this, &cell, &state](int64_t begin, int64_t end) {
      const Room<PlaneBuffers<A>> rows;
      JoinedDx<A> formula(state);
      planes_.for_slices(cell, begin, end, [&](int64_t i, const SliceOffsets& at) {
        checkpoint_for(at.n);
        const Slice slice = slices_of_(at, kept ? kept + planes_.begin_of(i) : nullptr);
        if (sums) slices_of_.add_products(slice, state, *rows, sums[i]);
        if (is_written) slices_of_.write(slice, state, formula, *rows);
      });
    };
  }

  /// Statistics in one pass about a guess, and where that was far from the mean, in another one
  /// about the mean. Returns whether h and h * z have been added up, too.
  template <class Each>
  bool find_statistics(const GradOffsets& cell, State& state, SliceSums* sums,
                       const Each& each) const {
    const bool has_products =
        !reads_input(plan_.activation.kind) && (plan_.has_totals() || plan_.has_own_sums());
    A pivot = plan_.use_mean ? guess(cell) : A(0);
    const auto add = [&](int64_t begin, int64_t end) {
      planes_.for_slices(cell, begin, end, [&](int64_t i, const SliceOffsets& at) {
        checkpoint_for(at.n);
        const Slice slice = slices_of_(at);
        sums[i].scale = slice.scale;
        if (has_products)
          add_all(slice, pivot, sums[i]);
        else
          add_deviations(slice, pivot, sums[i]);
      });
    };
    each(add);
    Moments<A> m = moments(sums, pivot);
    if (plan_.use_mean && !(m.delta * m.delta <= 4 * (m.m2 / m.n))) {
      pivot = finite_or_0(static_cast<A>(double(pivot) + m.delta));
      each(add);
      m = moments(sums, pivot);
    }
    state.normal = normalizer_of(m, plan_.use_variance, plan_.epsilon);
    return has_products && take_products(sums, state.normal.factor, m.delta);
  }

  static A finite_or_0(A v) { return is_finite(double(v)) ? v : A(0); }

  /// The mean of 32 elements at eight places, or of the first four of few: of a constant cell
  /// exactly what it is made of.
  A guess(const GradOffsets& cell) const {
    constexpr int kPlaces = GradPlanes::kPlaces;
    const int places = plan_.cell_size < 16 * kPlaces ? 1 : kPlaces;
    A sums[kPlaces];
    for (int k = 0; k < places; ++k) {
      const T* const x = static_cast<const T*>(operands_.inputs[0]) + cell.x + planes_.place[k];
      sums[k] = (load_as_acc(x[0]) + load_as_acc(x[2])) + (load_as_acc(x[1]) + load_as_acc(x[3]));
    }
    for (int half = places / 2; half > 0; half /= 2)
      for (int k = 0; k < half; ++k) sums[k] += sums[k + half];
    return finite_or_0(sums[0] / A(4 * places));
  }

  Moments<A> moments(const SliceSums* sums, A pivot) const {
    const auto n = double(plan_.cell_size);
    Total<A> sum, square;
    for (int64_t i = 0; i < planes_.slices; ++i) {
      sum.add(sums[i].d);
      square.add(sums[i].dd);
    }
    if (!plan_.use_mean) return {n, 0, 0, square.value()};
    return moments_about<A>(n, pivot, sum.value(), square.value());
  }

  /// Turns h * d into h * z, if that loses nothing.
  bool take_products(SliceSums* sums, double factor, double delta) const {
    if (!is_joinable(factor)) return false;
    double all = 0;
    for (int64_t i = 0; i < planes_.slices; ++i) {
      sums[i].hz = factor * fused(-delta, sums[i].h, sums[i].hz);
      all += sums[i].hz;
    }
    return is_finite(all);
  }

  /// mean_w and mean_wz of the cell's own sums.
  void set_means(const SliceSums* sums, State& state) const {
    const auto n = double(plan_.cell_size);
    Total<A> w, wz;
    for (int64_t i = 0; i < planes_.slices; ++i) {
      w.add(sums[i].h * sums[i].scale);
      wz.add(sums[i].hz * sums[i].scale);
    }
    if (plan_.use_mean) state.mean_w = static_cast<A>(w.value() / n);
    if (plan_.use_variance) state.mean_wz = static_cast<A>(wz.value() / n);
  }

  void add_totals(const GradOffsets& cell, const SliceSums* sums, const Share& share) const {
    const bool are_sums = plan_.kind == MvnGradKind::sums;
    planes_.for_slices(cell, 0, planes_.slices, [&](int64_t i, const SliceOffsets& at) {
      const double by = are_sums ? sums[i].scale : slices_of_.slope();
      const double values[2] = {by * sums[i].hz, by * sums[i].h};
      for (int k = 0; k < 2; ++k)
        if (share.totals.is_wanted(k))
          share.totals.add_one(share.index, k, at.totals[k], values[are_sums ? 1 - k : k]);
    });
  }

  const MvnGradPlan& plan_;
  const Operands& operands_;
  GradPlanes planes_;
  PlaneSlices<T> slices_of_;
  bool is_split_;
};

}  // namespace

bool has_grad_planes(const MvnGradPlan& plan) {
  if (plan.reduced_rank == 0 || plan.is_empty()) return false;
  const MvnGradAxis& inner = plan.reduced[plan.reduced_rank - 1];
  return inner.size >= kLeastPlane && inner.x == 1 && inner.grad == 1 &&
         (inner.dx == 1 || !plan.wants_dx) && !inner.scale && !inner.totals[0] &&
         !inner.totals[1] && !(plan.has_bias && inner.bias);
}

bool has_few_grad_planes(const MvnGradPlan& plan) {
  if (!has_grad_planes(plan)) return false;
  const int64_t planes = plan.cell_size / plan.reduced[plan.reduced_rank - 1].size;
  return planes <= tuning::mvn_grad::kFewPlanes;
}

template <class T>
void mvn_grad_planes(const MvnGradPlan& plan, const Operands& operands) {
  PlaneCells<T>(plan, operands).run();
}

template void mvn_grad_planes<float>(const MvnGradPlan&, const Operands&);
template void mvn_grad_planes<Float16>(const MvnGradPlan&, const Operands&);
template void mvn_grad_planes<BFloat16>(const MvnGradPlan&, const Operands&);

}  // namespace cudml::cpu::CUDML_ISA
