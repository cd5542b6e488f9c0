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
    if (plan_.result_dtype == Dtype::float64)
      put_as<double>(group, count, mean, m2);
    else
      put_as<float>(group, count, mean, m2);
  }

 private:
  template <class R>
  void put_as(const GroupOffsets& group, double count, double mean, double m2) const {
    static_cast<R*>(outputs_[0])[group[StatisticsPlan::kCount]] = static_cast<R>(count);
    static_cast<R*>(outputs_[1])[group[StatisticsPlan::kMean]] = static_cast<R>(mean);
    static_cast<R*>(outputs_[2])[group[StatisticsPlan::kM2]] = static_cast<R>(m2);
  }

  const StatisticsPlan& plan_;
  void* const* outputs_;
};

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
