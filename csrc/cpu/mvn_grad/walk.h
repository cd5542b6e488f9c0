// Walking the dimensions of a normalization's gradient.
#pragma once

#include "cpu/memory/strided_walk.h"
#include "ops/mvn_grad.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

/// Where a position stands in each tensor, in elements.
struct GradOffsets {
  int64_t x = 0, grad = 0, dx = 0, scale = 0, bias = 0;
  int64_t mean = 0, variance = 0, count = 0, sums[2] = {}, totals[2] = {};

  void add(const MvnGradAxis& a, int64_t steps) {
    x += steps * a.x;
    grad += steps * a.grad;
    dx += steps * a.dx;
    scale += steps * a.scale;
    bias += steps * a.bias;
    mean += steps * a.mean;
    variance += steps * a.variance;
    count += steps * a.count;
    for (int k = 0; k < 2; ++k) {
      sums[k] += steps * a.sums[k];
      totals[k] += steps * a.totals[k];
    }
  }
  /// The place so many steps on: of one that stays as it is, since what is loaded right after its
  /// parts were stored waits for them.
  GradOffsets after(const MvnGradAxis& a, int64_t steps) const {
    GradOffsets o = *this;
    o.add(a, steps);
    return o;
  }
  /// Copies part by part, of what was stored so.
  void take(const GradOffsets& o) {
    x = o.x;
    grad = o.grad;
    dx = o.dx;
    scale = o.scale;
    bias = o.bias;
    mean = o.mean;
    variance = o.variance;
    count = o.count;
    for (int k = 0; k < 2; ++k) {
      sums[k] = o.sums[k];
      totals[k] = o.totals[k];
    }
  }
  void add(const GradOffsets& o) {
    x += o.x;
    grad += o.grad;
    dx += o.dx;
    scale += o.scale;
    bias += o.bias;
    for (int k = 0; k < 2; ++k) totals[k] += o.totals[k];
  }
};

using GradWalk = AxisWalk<MvnGradAxis, GradOffsets>;

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
