// Short planes of normalization's gradient, several in turn: of neighbouring cells, or of one whose
// planes have scales or biases of their own.
#pragma once

#include "cpu/mvn_grad/cell_lanes.h"
#include "cpu/mvn_grad/group_lanes.h"
#include "cpu/mvn_grad/plane_cells.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

/// Whether planes of a cell have parameters of their own.
inline bool have_planes_parameters(const MvnGradPlan& plan) {
  return std::any_of(plan.reduced, plan.reduced + plan.reduced_rank - 1,
                     [](const MvnGradAxis& a) { return a.has_parameters(); });
}

/// Each of `cells` whose factors must not be joined is taken by itself.
template <class Lanes, class T>
void run_short_planes(const ShortPlanes<T>& planes, const PlaneCells<T>& cells) {
  const MvnGradPlan& plan = planes.plan;
  const int64_t most = std::max<int64_t>(1, plan.cells / Lanes::kLeastCells),
                shares = plan.has_totals() ? shares_of(plan, most) : most;
  const Totals<float> totals(plan, plan.has_totals() ? shares : 0, planes.operands);
  parallel_for(shares, plan.compulsory_bytes(), [&](int64_t begin, int64_t end) {
    const Room<Lanes> lanes(planes);
    Pace pace;
    for (int64_t s = begin; s < end; ++s) {
      const TotalsShare<float> share{totals, s};
      const int64_t stop = part_begin(plan.cells, s + 1, shares);
      for (int64_t c = part_begin(plan.cells, s, shares), n; c < stop; c += n) {
        n = lanes->run(c, stop - c, share, [&](int64_t cell) {
          cells.run_cell(cell, share, planes.keeps_total(1) ? 1 : 2);
        });
        pace.add(n * plan.cell_size);
      }
    }
  });
  totals.finish();
}

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
