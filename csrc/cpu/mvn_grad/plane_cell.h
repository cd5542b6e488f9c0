// A cell of planes, and what follows from the sums over its slices.
#pragma once

#include "cpu/mvn/moments.h"
#include "cpu/mvn_grad/joined.h"
#include "cpu/mvn_grad/plane_sums.h"
#include "cpu/threads/interrupt.h"
#include "math/total.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

template <class A>
struct PlaneCell {
  GradOffsets at;
  CellState<A> state;
  SliceSums* sums;  // of its slices
  int64_t slices;
  A* kept;  // h, where that is kept apart, or null
  A pivot;  // that deviations are about
  bool needs_sums;

  Moments<A> moments(const MvnGradPlan& plan) const {
    const auto n = double(plan.cell_size);
    Total<A> sum, square;
    Pace pace;
    for (int64_t i = 0; i < slices; ++i) {
      pace.add(1);
      sum.add(sums[i].d);
      square.add(sums[i].dd);
    }
    if (!plan.use_mean) return {n, 0, 0, square.value()};
    return moments_about<A>(n, pivot, sum.value(), square.value());
  }

  /// Turns h * d into h * z, if that loses nothing.
  bool take_products(double delta) {
    const double factor = state.normal.factor;
    if (!is_joinable(factor)) return false;
    double all = 0;
    Pace pace;
    for (int64_t i = 0; i < slices; ++i) {
      pace.add(1);
      sums[i].hz = factor * fused(-delta, sums[i].h, sums[i].hz);
      all += sums[i].hz;
    }
    return is_finite(all);
  }

  /// mean_w and mean_wz of its own sums.
  void set_means(const MvnGradPlan& plan) {
    const auto n = double(plan.cell_size);
    Total<A> w, wz;
    Pace pace;
    for (int64_t i = 0; i < slices; ++i) {
      pace.add(1);
      w.add(sums[i].h * sums[i].scale);
      wz.add(sums[i].hz * sums[i].scale);
    }
    if (plan.use_mean) state.mean_w = static_cast<A>(w.value() / n);
    if (plan.use_variance) state.mean_wz = static_cast<A>(wz.value() / n);
    needs_sums = false;
  }
};

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
