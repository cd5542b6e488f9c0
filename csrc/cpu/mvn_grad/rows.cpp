// The gradient of normalization by packed rows: the statistics of each, then its sums, then dx,
// and for a few rows, which the cache still holds, the totals.
#include "cpu/mvn_grad/rows.h"

#include "cpu/memory/tuning.h"
#include "cpu/mvn_grad/row_share.h"
#include "cpu/threads/parallel.h"

namespace cudml::cpu::CUDML_ISA {

using tuning::mvn_grad::kLeastLongRows;
using tuning::mvn_grad::kLongestOwnRow;
using tuning::mvn_grad::kLongestPlainRow;
using tuning::mvn_grad::kLongestRow;
using tuning::mvn_grad::kLongestVariedRow;
using tuning::mvn_grad::kShortestRow;

bool are_grad_rows_packed(const MvnGradPlan& plan) {
  if (plan.kind == MvnGradKind::sums || plan.reduced_rank != 1) return false;
  const MvnGradAxis& a = plan.reduced[0];
  return a.x == 1 && a.grad == 1 &&
         (has_own_parameters(plan) ||
          ((a.scale == 1 || !plan.has_scale) && (a.bias == 0 || a.bias == 1)));
}

/// How many elements rows have at most.
static int64_t longest_row(const MvnGradPlan& plan) {
  const bool has_parameters = plan.has_scale || plan.has_bias;
  if (has_parameters) return has_own_parameters(plan) ? kLongestOwnRow : kLongestVariedRow;
  const bool is_plain = plan.dtype == Dtype::float32 && !plan.has_totals() &&
                        plan.activation.kind == ActivationKind::identity;
  return is_plain ? kLongestPlainRow[kHasLineVectors ? 0 : 1] : kLongestRow;
}

bool are_grad_rows_moderate(const MvnGradPlan& plan) {
  return plan.cell_size >= kShortestRow && plan.cell_size <= longest_row(plan);
}

/// Few long rows are the work of several threads, too.
static int64_t row_shares_of(const MvnGradPlan& plan, int64_t count) {
  return shares_of(plan, count, plan.cell_size > kLongestRow ? kLeastLongRows : kLeastTerms);
}

template <class T>
void mvn_grad_rows(const MvnGradPlan& plan, const Operands& operands) {
  const RowCells<T> cells(plan, operands);
  const int64_t count = plan.is_empty() ? 0 : plan.cells;
  const int64_t shares = count && plan.has_totals() ? row_shares_of(plan, count) : 0;
  const Totals<Acc<T>> totals(plan, shares, operands, cells.are_staged(count, shares));
  if (count && (plan.wants_dx || shares))
    parallel_for(shares ? shares : count, plan.compulsory_bytes(), [&](int64_t begin, int64_t end) {
      RowShare<T> share(cells, totals);
      if (!shares) return share.run(begin, end, 0);
      for (int64_t s = begin; s < end; ++s)
        share.run(part_begin(count, s, shares), part_begin(count, s + 1, shares), s);
    });
  totals.finish();
}

template void mvn_grad_rows<float>(const MvnGradPlan&, const Operands&);
template void mvn_grad_rows<Float16>(const MvnGradPlan&, const Operands&);
template void mvn_grad_rows<BFloat16>(const MvnGradPlan&, const Operands&);

}  // namespace cudml::cpu::CUDML_ISA
