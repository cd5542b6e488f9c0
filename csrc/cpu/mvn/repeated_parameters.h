// A scale and bias that come again and again along a packed group: of channels that are stored last
// and belong to one group.
#pragma once

#include <algorithm>
#include <numeric>

#include "cpu/memory/tuning.h"
#include "cpu/mvn/walk.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

using tuning::mvn::kLeastPeriods;
using tuning::mvn::kMostPeriod;

/// Whether a group is packed in x and y, and its scale and bias in one of several equal pieces.
inline bool are_parameters_repeated(const MvnPlan& plan) {
  if (plan.reduced_rank != 2) return false;
  const MvnAxis &outer = plan.reduced[0], &inner = plan.reduced[1];
  return inner.x == 1 && inner.y == 1 && outer.x == inner.size && outer.y == inner.size &&
         !outer.scale && !outer.bias;
}

/// Elements that are written with one row of scale and bias, which has these several times: a small
/// share of a group, and whole lines of T unless that were too many. 0 where parameters are not
/// repeated, or long.
template <class T>
int64_t period_of(const MvnPlan& plan) {
  if (!are_parameters_repeated(plan)) return 0;
  const int64_t once = plan.reduced[1].size, lines = std::lcm(once, 64 / int64_t(sizeof(T))),
                unit = lines <= kMostPeriod ? lines : once,
                most = std::min(kMostPeriod, plan.group_size / kLeastPeriods);
  return unit > kMostPeriod ? 0 : std::max<int64_t>(1, most / unit) * unit;
}

/// n elements of a parameter whose first `once` are packed in `row`, which has room for all.
template <class T>
void repeat_row(const Parameter<T>& p, int64_t offset, int64_t stride, int64_t once, int64_t n,
                float* row) {
  p.copy(offset, stride, std::min(once, n), row);
  for (int64_t done = once; done < n; done *= 2)
    std::copy_n(row, std::min(done, n - done), row + done);
}

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
