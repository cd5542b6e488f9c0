// Statistics that are data: one position's, or those of a row.
#pragma once

#include <cmath>

#include "core/operands.h"
#include "cpu/memory/strided_walk.h"
#include "math/given.h"
#include "ops/normalize.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

using NormalizeOffsets = StridedOffsets<NormalizePlan::kTensors>;

/// n elements from `offset` on in double, at a stride: element i is handed to fn(i, value).
template <class Fn>
void for_wide(const void* tensor, Dtype dtype, int64_t offset, int64_t stride, int64_t n,
              const Fn& fn) {
  visit(dtype, FloatTypes{}, [&]<class T>() {
    const T* const from = static_cast<const T*>(tensor) + offset;
    for (int64_t i = 0; i < n; ++i) fn(i, double(load_as_acc(from[i * stride])));
  });
}

template <class A>
class GivenStatistics {
 public:
  GivenStatistics(const NormalizePlan& plan, const Operands& operands)
      : plan_(plan), mean_(operands.inputs[1]), variance_(operands.inputs[2]) {}

  /// Of one position.
  Normalizer<A> at(const NormalizeOffsets& offsets) const {
    Normalizer<A> normal;
    fill(offsets, {}, 1, &normal.pivot, &normal.delta, &normal.factor);
    return normal;
  }

  /// Of n positions along `axis`.
  void fill(const NormalizeOffsets& at, const NormalizePlan::Axis& axis, int64_t n, A* pivot,
            A* delta, A* factor) const {
    constexpr int kMean = NormalizePlan::kMean, kVariance = NormalizePlan::kVariance;
    if (plan_.has_mean)
      for_wide(mean_, plan_.mean_dtype, at[kMean], axis.stride[kMean], n,
               [&](int64_t i, double mean) { split_mean(mean, pivot[i], delta[i]); });
    else
      std::fill_n(pivot, n, A(0)), std::fill_n(delta, n, A(0));
    if (plan_.has_variance)
      for_wide(
          variance_, plan_.variance_dtype, at[kVariance], axis.stride[kVariance], n,
          [&](int64_t i, double variance) { factor[i] = factor_of<A>(variance, plan_.epsilon); });
    else
      std::fill_n(factor, n, A(1));
  }

 private:
  const NormalizePlan& plan_;
  const void *mean_, *variance_;
};

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
