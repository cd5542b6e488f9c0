// Where the statistics of groups go.
#pragma once

#include "core/dtype.h"
#include "core/operands.h"
#include "cpu/memory/strided_walk.h"
#include "math/moments.h"
#include "ops/statistics.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

using GroupOffsets = StridedOffsets<StatisticsPlan::kTensors>;
using GroupWalk = StridedWalk<StatisticsPlan::kTensors>;

/// The three results of a call, in the type that was asked for.
class StatisticsResults {
 public:
  StatisticsResults(const StatisticsPlan& plan, const Operands& operands)
      : plan_(plan), outputs_(operands.outputs) {}

  /// Of a group of one element at least.
  template <class A>
  void put(const GroupOffsets& group, const Moments<A>& moments) const {
    put(group, double(plan_.group_size), double(moments.pivot) + moments.delta, moments.m2);
  }

  void put(const GroupOffsets& group, double count, double mean, double m2) const {
    const double values[] = {count, mean, m2};
    for (int i = 0; i < 3; ++i) {
      const int64_t at = group[StatisticsPlan::kCount + i];
      if (plan_.result_dtype == Dtype::float64)
        static_cast<double*>(outputs_[i])[at] = values[i];
      else
        static_cast<float*>(outputs_[i])[at] = static_cast<float>(values[i]);
    }
  }

 private:
  const StatisticsPlan& plan_;
  void* const* outputs_;
};

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
