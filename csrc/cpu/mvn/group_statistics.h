// The groups' statistics as results, for calls that ask for them.
#pragma once

#include "core/operands.h"
#include "cpu/memory/strided_walk.h"
#include "math/moments.h"
#include "ops/mvn.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

class GroupStatistics {
 public:
  GroupStatistics(const MvnPlan& plan, const Operands& operands)
      : plan_(plan), mean_(operands.outputs[1]), variance_(operands.outputs[2]) {}

  bool are_wanted() const { return plan_.has_statistics(); }

  /// Those of a group, by its number among the kept dimensions. A is what the plan is computed in.
  template <class A>
  void put(int64_t group, A mean, A variance) const {
    StridedOffsets<MvnPlan::kStatistics> at;
    if (plan_.statistics_rank > 1)
      at = offsets(group);
    else
      at.add(plan_.statistics[0], group);
    if (plan_.has_mean_result) static_cast<A*>(mean_)[at[MvnPlan::kMean]] = mean;
    if (plan_.has_variance_result) static_cast<A*>(variance_)[at[MvnPlan::kVariance]] = variance;
  }

  template <class A>
  void put(int64_t group, const Moments<A>& m) const {
    put(group, static_cast<A>(double(m.pivot) + m.delta), static_cast<A>(m.m2 / m.n));
  }

 private:
  [[gnu::noinline]] StridedOffsets<MvnPlan::kStatistics> offsets(int64_t group) const {
    return StridedWalk<MvnPlan::kStatistics>(plan_.statistics, plan_.statistics_rank, group)
        .offsets();
  }

  const MvnPlan& plan_;
  void *mean_, *variance_;
};

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
