// Blocks of cells that share what belongs to their rows, and what the threads that work on them do
// alike.
#pragma once

#include <algorithm>
#include <memory>

#include "cpu/mvn_grad/cell.h"
#include "cpu/mvn_grad/row_lanes.h"
#include "cpu/mvn_grad/totals.h"
#include "cpu/simd/floats.h"
#include "cpu/threads/arena.h"
#include "cpu/threads/interrupt.h"
#include "cpu/threads/parallel.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

/// What belongs to each row of a cell: parameters, and lanes that add up to its sums of h * z and
/// h.
struct CellRows {
  std::unique_ptr<float[]> scale, bias, lanes[2];
  std::unique_ptr<double[]> sums[2];

  explicit CellRows(int64_t rows) : scale(new float[size_t(rows)]), bias(new float[size_t(rows)]) {
    for (int k = 0; k < 2; ++k) {
      lanes[k].reset(new float[size_t(rows * kFloats)]());
      sums[k].reset(new double[size_t(rows)]());
    }
  }

  /// Scale, or without one 1; bias or 0. Row r stands at places(r).
  template <class Places>
  void take_parameters(const MvnGradPlan& plan, const Operands& operands, const Places& places) {
    const auto value = [&](int k, bool is_there, Dtype dtype, int64_t at) {
      return is_there ? static_cast<float>(read_wide(operands.inputs[k], dtype, at))
                      : float(k == 2);
    };
    for (int64_t r = 0; r < plan.cell_size; ++r) {
      const GradOffsets at = places(r);
      scale[size_t(r)] = value(2, plan.has_scale, plan.scale_dtype, at.scale);
      bias[size_t(r)] = value(3, plan.has_bias, plan.bias_dtype, at.bias);
    }
  }

  /// Makes what the lanes hold part of the sums.
  void settle(int64_t rows) {
    for (int k = 0; k < 2; ++k) {
      for (int64_t r = 0; r < rows; ++r)
        sums[k][size_t(r)] += lane_total<float>(load_vector<Floats>(lanes[k].get() + r * kFloats));
      std::fill_n(lanes[k].get(), rows * kFloats, 0.0f);
    }
  }

  /// Adds the sums to the totals and begins anew. Row r stands at places(r).
  template <class Places>
  void hand_over(int64_t rows, const TotalsShare<float>& share, const Places& places) {
    for (int k = 0; k < 2; ++k) {
      for (int64_t r = 0; r < rows && share.totals.is_wanted(k); ++r)
        share.totals.add_one(share.index, k, places(r).totals[k], sums[k][size_t(r)]);
      std::fill_n(sums[k].get(), rows, 0.0);
    }
  }
};

/// Calls fn(block, thread, rows, share) for each of `blocks`; threads have a Thread each. The
/// blocks of a share follow one another, whatever threads there are.
template <class Thread, class Fn>
void run_blocks(const MvnGradPlan& plan, const Operands& operands, int64_t blocks, const Fn& fn) {
  const int64_t shares = plan.has_totals() ? shares_of(plan, blocks) : blocks;
  const Totals<float> totals(plan, plan.has_totals() ? shares : 0, operands);
  parallel_for(shares, plan.compulsory_bytes(), [&](int64_t begin, int64_t end) {
    CellRows rows(plan.cell_size);
    const Room<Thread> thread(plan, operands);
    for (int64_t share = begin; share < end; ++share)
      for (int64_t i = part_begin(blocks, share, shares),
                   last = part_begin(blocks, share + 1, shares);
           i < last; ++i) {
        checkpoint();
        fn(i, *thread, rows, TotalsShare<float>{totals, share});
      }
  });
  totals.finish();
}

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
