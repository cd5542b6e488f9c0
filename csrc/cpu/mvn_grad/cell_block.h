// Cells side by side, some tiles of them: their numbers as packed floats, and what is done with
// those.
#pragma once

#include <algorithm>
#include <memory>

#include "cpu/mvn_grad/cell.h"
#include "cpu/mvn_grad/column_tiles.h"
#include "cpu/mvn_grad/passed.h"
#include "cpu/mvn_grad/row_lanes.h"
#include "math/slope.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

/// What belongs to each row of a cell: parameters, and lanes that add up to its sums of h * z and
/// h.
struct CellRows {
  std::unique_ptr<float[]> scale, bias, lanes[2];
  std::unique_ptr<double[]> sums[2];

  explicit CellRows(int64_t rows) : scale(new float[size_t(rows)]), bias(new float[size_t(rows)]) {
    for (int k = 0; k < 2; ++k) {
      lanes[k].reset(new float[size_t(rows * kFloats)]());
      sums[k].reset(new double[size_t(rows)]());
    }
  }

  /// Makes what the lanes hold part of the sums.
  void settle(int64_t rows) {
    for (int k = 0; k < 2; ++k) {
      for (int64_t r = 0; r < rows; ++r)
        sums[k][size_t(r)] += lane_total<float>(load_vector<Floats>(lanes[k].get() + r * kFloats));
      std::fill_n(lanes[k].get(), rows * kFloats, 0.0f);
    }
  }
};

/// Rows [first, first + n) of a tile: turns the gradient into w, adds up w and w * z for the cells,
/// h * z and h for the rows. `counted` has bits in the lanes that stand for cells.
template <class Pass>
[[gnu::noinline]] void take_strip(const float* x, float* grad, int64_t first, int64_t n,
                                  const TileConstants& c, const Pass& passing,
                                  const Vector<int32_t>* counted, CellRows& rows, TileSums& sums) {
  const TileNormalizer normal(c);
  Pass pass = passing;
  StripSums strip(sums);
  for (int64_t r = first; r < first + n; ++r) {
    const Floats scale = broadcast(rows.scale[size_t(r)]);
    if constexpr (!std::is_same_v<Pass, Through>) {
      pass.factor = scale;
      pass.shift = broadcast(rows.bias[size_t(r)]);
    }
    float *const hz_lanes = rows.lanes[0].get() + r * kFloats, *const h_lanes =
                                                                   rows.lanes[1].get() +
                                                                   r * kFloats;
    Floats hz_sum = load_vector<Floats>(hz_lanes), h_sum = load_vector<Floats>(h_lanes);
#pragma GCC unroll 2
    for (int k = 0; k < kTileVectors; ++k) {
      float* const g = grad + r * kTileColumns + k * kFloats;
      const Floats z = normal(x + r * kTileColumns, k), all = pass(load_vector<Floats>(g), z),
                   h = same_bits<Floats>(same_bits<Vector<int32_t>>(all) & counted[k]),
                   w = h * scale;
      hz_sum = fused(h, z, hz_sum);
      h_sum += h;
      strip.add(k, w, z);
      store_vector(g, w);
    }
    store_vector(hz_lanes, hz_sum);
    store_vector(h_lanes, h_sum);
  }
  strip.put(sums);
  sums.settle();
}

/// Writes v of n rows.
[[gnu::noinline]] inline void evaluate_strip(const float* x, int64_t first, int64_t n,
                                             const TileConstants& c, const CellRows& rows,
                                             float* v) {
  const TileNormalizer normal(c);
  for (int64_t r = 0; r < n; ++r)
#pragma GCC unroll 2
    for (int k = 0; k < kTileVectors; ++k)
      store_vector(
          v + r * kTileColumns + k * kFloats,
          fused(broadcast(rows.scale[size_t(first + r)]), normal(x + (first + r) * kTileColumns, k),
                broadcast(rows.bias[size_t(first + r)])));
}

/// The cells of one tile, whatever the type of their elements.
class CellTile {
 public:
  explicit CellTile(const MvnGradPlan& plan) : plan_(plan), rows_(plan.cell_size) {}

  /// Turns `grad` into dx; n cells are there, whose states follow from data or are found.
  void run(const float* x, float* grad, int64_t n, CellState<float>* states, CellRows& rows) {
    x_ = x;
    grad_ = grad;
    for (int k = 0; k < kTileVectors; ++k)
      for (int64_t l = 0; l < kFloats; ++l) counted_[k][l] = k * kFloats + l < n ? -1 : 0;
    if (plan_.has_own_statistics()) find_statistics(n, states);
    set_normalizers(n, states);
    sums_ = {};
    for (int64_t r = 0; r < rows_; r += kStripRows) pass_strip(r, rows);
    if (!plan_.wants_dx) return;
    set_means(n, states);
    for (int64_t r = 0; r < rows_; r += kStripRows)
      write_tile(of(x_, r), of(static_cast<const float*>(grad_), r),
                 TileRows<float>{grad_ + r * kTileColumns, kBufferRows.at, 0}, strip(r),
                 TileConstants(constants_, 0), Through{}, {takes_product(plan_), false});
  }

  /// Of w and w * z, of each of these cells.
  const TileSums& sums() const { return sums_; }

 private:
  static constexpr int64_t kPlaces = 32;

  int64_t strip(int64_t first) const { return std::min(kStripRows, rows_ - first); }
  static TileRows<const float> of(const float* rows, int64_t first) {
    return {rows + first * kTileColumns, kBufferRows.at, 0};
  }

  void add_moments() {
    sums_ = {};
    for (int64_t r = 0; r < rows_; r += kStripRows) {
      add_deviations(of(x_, r), strip(r), TileConstants(constants_, 0), sums_);
      sums_.settle();
    }
  }

  static float finite_or_0(float v) { return is_finite(double(v)) ? v : 0; }

  /// The mean of some elements at even distances: of a constant cell exactly what it is made of.
  void guess() {
    int64_t places = 1;
    while (places < kPlaces && places * 16 <= rows_) places *= 2;
    for (int64_t c = 0; c < kTileColumns; c += kFloats) {
      Floats values[kPlaces];
      for (int64_t k = 0; k < places; ++k)
        values[k] = load_vector<Floats>(x_ + k * (rows_ / places) * kTileColumns + c);
      for (int64_t half = places / 2; half > 0; half /= 2)
        for (int64_t k = 0; k < half; ++k) values[k] += values[k + half];
      const Floats mean = values[0] / float(places);
      store_vector(constants_.pivot + c, mean - mean == 0 ? mean : Floats{});
    }
  }

  Moments<float> moments(int64_t c) const {
    const auto n = double(rows_);
    if (!plan_.use_mean) return {n, 0, 0, sums_.second[c]};
    return moments_about<float>(n, constants_.pivot[c], sums_.first[c], sums_.second[c]);
  }

  void find_statistics(int64_t n, CellState<float>* states) {
    std::fill_n(constants_.pivot, kTileColumns, 0.0f);
    if (plan_.use_mean) guess();
    add_moments();
    if (plan_.use_mean && correct_pivots(n)) add_moments();
    for (int64_t c = 0; c < n; ++c)
      states[c].normal = normalizer_of(moments(c), plan_.use_variance, plan_.epsilon);
  }

  /// Makes pivots that were far from the mean that; returns whether there were any.
  bool correct_pivots(int64_t n) {
    bool are_any = false;
    for (int64_t c = 0; c < n; ++c) {
      const Moments<float> m = moments(c);
      if (m.delta * m.delta <= 4 * (m.m2 / m.n)) continue;
      constants_.pivot[c] = finite_or_0(float(double(m.pivot) + m.delta));
      are_any = true;
    }
    return are_any;
  }

  void set_normalizers(int64_t n, const CellState<float>* states) {
    for (int64_t c = 0; c < kTileColumns; ++c) {
      const Normalizer<float> normal = c < n ? states[c].normal : Normalizer<float>{0, 0, 0};
      constants_.pivot[c] = normal.pivot;
      constants_.delta[c] = normal.delta;
      constants_.factor[c] = normal.factor;
    }
  }

  void set_means(int64_t n, CellState<float>* states) {
    const double count = double(rows_);
    for (int64_t c = 0; c < kTileColumns; ++c) {
      CellState<float> state = c < n ? states[c] : CellState<float>{};
      if (plan_.has_own_sums() && plan_.use_mean) state.mean_w = float(sums_.first[c] / count);
      if (plan_.has_own_sums() && plan_.use_variance)
        state.mean_wz = float(sums_.second[c] / count);
      constants_.scale[c] = 1;
      constants_.shift[c] = -state.mean_w;
      constants_.slope[c] = -state.mean_wz;
    }
  }

  void pass_strip(int64_t r, CellRows& rows) {
    const Activation& f = plan_.activation;
    const TileConstants c(constants_, 0);
    const int64_t n = strip(r);
    if (SwishPass::suits(f))
      return take_strip(x_, grad_, r, n, c, SwishPass(f, 0, 0), counted_, rows, sums_);
    if (f.kind != ActivationKind::identity) {
      float* const g = grad_ + r * kTileColumns;
      evaluate_strip(x_, r, n, c, rows, v_);
      pass_row(f, v_, g, v_, n * kTileColumns);
      std::copy_n(v_, n * kTileColumns, g);
    }
    take_strip(x_, grad_, r, n, c, Through{}, counted_, rows, sums_);
  }

  const MvnGradPlan& plan_;
  const int64_t rows_;
  const float* x_ = nullptr;
  float* grad_ = nullptr;
  Vector<int32_t> counted_[kTileVectors];
  TileSums sums_;
  ColumnConstants<kTileColumns> constants_;
  alignas(64) float v_[kStripRows * kTileColumns];
};

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
