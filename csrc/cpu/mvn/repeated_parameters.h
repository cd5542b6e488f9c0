// A scale and bias that come again and again along a packed group, as those of channels that are
// stored last and belong to one group, or that are the same over each of its short pieces.
#pragma once

#include <algorithm>
#include <numeric>

#include "cpu/memory/spread.h"
#include "cpu/memory/tuning.h"
#include "cpu/mvn/walk.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

using tuning::mvn::kLeastPeriods;
using tuning::mvn::kMostPeriod;
using tuning::mvn::kMostUniform;

/// How scale and bias go along a group that is packed in x and y, but not both as a row themselves:
/// they come again, or are the same over each of several short pieces.
enum class ParameterPieces { none, repeated, uniform };

inline ParameterPieces parameter_pieces(const MvnPlan& plan) {
  if (plan.reduced_rank != 2) return ParameterPieces::none;
  const MvnAxis &outer = plan.reduced[0], &inner = plan.reduced[1];
  if (inner.x != 1 || inner.y != 1 || outer.x != inner.size || outer.y != inner.size)
    return ParameterPieces::none;
  if (!outer.scale && !outer.bias) return ParameterPieces::repeated;
  const bool are_uniform = !inner.scale && !inner.bias && inner.size <= kMostUniform;
  return are_uniform ? ParameterPieces::uniform : ParameterPieces::none;
}

/// Elements that are written with one row of scale and bias. Where these are repeated it has them
/// several times, is a small share of a group, and whole lines of T unless that were too many. 0
/// where there is no such row.
template <class T>
int64_t period_of(const MvnPlan& plan) {
  const ParameterPieces pieces = parameter_pieces(plan);
  if (pieces != ParameterPieces::repeated)
    return pieces == ParameterPieces::uniform ? kMostPeriod : 0;
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

/// n elements of a parameter that pieces of `fold` share, from element `skip` of the first one on.
template <class T>
void spread_row(const Parameter<T>& p, int64_t offset, int64_t stride, int64_t fold, int64_t skip,
                int64_t n, float* row) {
  p.copy(offset, stride, (skip + n - 1) / fold + 1, row);
  spread(row, fold, skip, n);
}

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
