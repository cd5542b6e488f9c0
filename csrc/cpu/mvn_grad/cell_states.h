// What follows from data or sums for each of some cells: the formulas of math/moments.h and
// math/given.h, with a cell in each lane.
#pragma once

#include "cpu/mvn_grad/cell.h"
#include "cpu/mvn_grad/column_tiles.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

/// Where each of some cells, and what belongs to it, stands in each tensor, in elements; only what
/// is asked for is set.
template <int64_t kCount>
struct CellPlaces {
  using Places = int64_t[kCount];

  Places x, grad, dx, scale, bias, mean, variance, count, sums[2], totals[2];

  /// Elements and data of cells [first, first + n), which follow each other along an axis.
  void set(const MvnGradPlan& plan, int64_t first, int64_t n, const GradOffsets& at,
           const MvnGradAxis& axis) {
    fill(x + first, n, at.x, axis.x);
    fill(grad + first, n, at.grad, axis.grad);
    fill(dx + first, n, at.dx, axis.dx);
    if (plan.are_given) {
      fill(mean + first, n, at.mean, axis.mean);
      fill(variance + first, n, at.variance, axis.variance);
    }
    if (!plan.has_sums) return;
    fill(count + first, n, at.count, axis.count);
    for (int k = 0; k < 2; ++k) fill(sums[k] + first, n, at.sums[k], axis.sums[k]);
  }

  /// Their parameters.
  void set_parameters(int64_t first, int64_t n, const GradOffsets& at, const MvnGradAxis& axis) {
    fill(scale + first, n, at.scale, axis.scale);
    fill(bias + first, n, at.bias, axis.bias);
    for (int k = 0; k < 2; ++k) fill(totals[k] + first, n, at.totals[k], axis.totals[k]);
  }

 private:
  static void fill(int64_t* places, int64_t n, int64_t place, int64_t step) {
    for (int64_t i = 0; i < n; ++i, place += step) places[i] = place;
  }
};

/// A number of each of n cells.
[[gnu::noinline]] inline void read_cells(const void* tensor, Dtype dtype, const int64_t* places,
                                         int64_t n, double* to) {
  visit(dtype, FloatTypes{}, [&]<class T>() {
    for (int64_t i = 0; i < n; ++i)
      to[i] = double(load_as_acc(static_cast<const T*>(tensor)[places[i]]));
  });
}

/// What is finite of it, and 0 elsewhere.
inline Doubles finite_part(Doubles v) { return v - v == 0 ? v : Doubles{}; }

inline Doubles inverse_root(Doubles variance, double epsilon) {
  return 1.0 / root(variance + epsilon);
}

/// Scale and bias that belong to cells: 1 and 0 where there is none.
template <int64_t kCount>
void take_parameters(const MvnGradPlan& plan, const Operands& o, const CellPlaces<kCount>& at,
                     int64_t n, ColumnConstants<kCount>& cells) {
  double scale[kCount], bias[kCount];
  std::fill_n(scale, kCount, 1.0);
  std::fill_n(bias, kCount, 0.0);
  if (plan.has_scale) read_cells(o.inputs[2], plan.scale_dtype, at.scale, n, scale);
  if (plan.has_bias) read_cells(o.inputs[3], plan.bias_dtype, at.bias, n, bias);
  for (int64_t c = 0; c < kCount; ++c) {
    cells.scale[c] = static_cast<float>(scale[c]);
    cells.bias[c] = static_cast<float>(bias[c]);
  }
}

/// Normalizers from statistics that are data.
template <int64_t kCount>
void take_given(const MvnGradPlan& plan, const Operands& o, const CellPlaces<kCount>& at, int64_t n,
                ColumnConstants<kCount>& cells) {
  alignas(64) double mean[kCount] = {}, variance[kCount] = {};
  if (plan.use_mean) read_cells(o.inputs[4], plan.mean_dtype, at.mean, n, mean);
  if (plan.use_variance) read_cells(o.inputs[5], plan.variance_dtype, at.variance, n, variance);
  std::fill_n(cells.factor, kCount, 1.0f);
  for (int64_t c = 0; c < kCount; c += kDoubles) {
    const Doubles all = load_vector<Doubles>(mean + c);
    const HalfFloats pivot = as_floats(all);
    store_vector(cells.pivot + c, pivot);
    store_vector(cells.delta + c, as_floats(finite_part(all - as_doubles(pivot))));
    if (plan.use_variance)
      store_vector(cells.factor + c,
                   as_floats(inverse_root(load_vector<Doubles>(variance + c), plan.epsilon)));
  }
}

/// Sums that are data, over their count, as what dx takes off.
template <int64_t kCount>
void take_sums(const MvnGradPlan& plan, const Operands& o, const CellPlaces<kCount>& at, int64_t n,
               ColumnConstants<kCount>& cells) {
  double count[kCount], sums[kCount];
  read_cells(o.inputs[6], plan.count_dtype, at.count, n, count);
  for (int k = 0; k < 2; ++k) {
    if (!(k == 0 ? plan.use_mean : plan.use_variance)) continue;
    read_cells(o.inputs[7 + k], plan.sum_dtypes[k], at.sums[k], n, sums);
    float* const to = k == 0 ? cells.shift : cells.slope;
    for (int64_t i = 0; i < n; ++i) to[i] = -static_cast<float>(sums[i] / count[i]);
  }
}

/// Of some cells: how far their means are from finite pivots, and their squares about the means.
struct LaneMoments {
  Doubles delta, variance;

  /// From sums over n elements of deviations from the pivots, and of their squares.
  LaneMoments(bool use_mean, double n, Doubles sum, Doubles square) {
    const double share = 1 / n;
    delta = use_mean ? sum * share : Doubles{};
    const Doubles rest = fused(-n * delta, delta, square);
    variance = (rest < 0 ? Doubles{} : rest) * share;
  }

  /// Lanes have bits where a mean is within two deviations of its pivot.
  auto are_near() const { return delta * delta <= 4 * variance; }
};

/// Normalizers of kDoubles cells from number c on, whose moments are about their pivots.
template <int64_t kCount>
void take_moments(const MvnGradPlan& plan, const LaneMoments& m, int64_t c,
                  ColumnConstants<kCount>& cells) {
  const Doubles pivot = as_doubles(load_vector<HalfFloats>(cells.pivot + c)),
                mean = pivot + m.delta;
  const HalfFloats rounded = as_floats(mean);
  // Two-sum: what the mean has lost by rounding.
  const Doubles part = mean - pivot, lost = (pivot - (mean - part)) + (m.delta - part);
  store_vector(cells.pivot + c, rounded);
  store_vector(cells.delta + c, as_floats(finite_part((mean - as_doubles(rounded)) + lost)));
  store_vector(cells.factor + c, plan.use_variance
                                     ? as_floats(inverse_root(m.variance, plan.epsilon))
                                     : as_floats(Doubles{} + 1.0));
}

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
