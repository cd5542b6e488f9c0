// One thread's memory for packed rows of a gradient: what is not of the computing type where it
// stands, and the totals of the rows since the last that went elsewhere.
#pragma once

#include <algorithm>

#include "cpu/memory/tuning.h"
#include "cpu/mvn/walk.h"
#include "cpu/mvn_grad/row_results.h"
#include "cpu/mvn_grad/totals.h"
#include "cpu/threads/arena.h"
#include "math/slope.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

/// Rows of the computing type for `n` elements, each of whole lines; those that a plan does not
/// need are null.
template <class A>
class RowSpace {
 public:
  A *scale = nullptr, *bias = nullptr;
  RowTotals<A> totals;
  A* wide = nullptr;  // a gradient, or dx
  A* h[kMostBatched] = {};

  /// Of `batch` rows. Totals, if positions have some, begin lines where element `first` of them is
  /// added to.
  RowSpace(const MvnGradPlan& plan, int64_t batch, int64_t first, bool has_totals)
      : step_((plan.cell_size + kLine - 1) / kLine * kLine + 2 * kLine) {
    const bool is_activated = plan.activation.kind != ActivationKind::identity;
    const auto assign = [&](bool is_needed, A*& row) {
      if (!is_needed) return;
      row = static_cast<A*>(memory_) + at_;
      at_ += step_;
    };
    const int64_t lead = (kLine - first % kLine) % kLine;
    const auto assign_total = [&](bool is_needed, A*& row) {
      assign(is_needed, row);
      if (row) row += lead;
    };
    const auto assign_all = [&] {
      at_ = 0;
      assign(true, scale);
      assign(reads_input(plan.activation.kind), bias);
      assign_total(has_totals && plan.totals[0].is_wanted, totals.products);
      assign_total(has_totals && plan.totals[1].is_wanted, totals.sums);
      assign(true, wide);
      for (int64_t r = 0; r < batch; ++r) assign(is_activated, h[r]);
    };
    assign_all();
    bytes_ = size_t(at_) * sizeof(A);
    memory_ = take_room(bytes_);
    assign_all();
    for (A* const total : {totals.products, totals.sums})
      if (total) clear(total);
  }
  ~RowSpace() { give_room(memory_, bytes_); }
  RowSpace(const RowSpace&) = delete;
  RowSpace& operator=(const RowSpace&) = delete;

  /// Nothing has been added to one of the totals.
  void clear(A* total) const { std::fill_n(total, step_ - kLine, A(0)); }

 private:
  static constexpr int64_t kLine = 64 / int64_t(sizeof(A));

  int64_t step_, at_ = 0;
  size_t bytes_ = 0;
  void* memory_ = nullptr;
};

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
