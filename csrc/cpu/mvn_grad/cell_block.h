// Cells side by side, some tiles of them: their numbers as packed floats, and what is done with
// those.
#pragma once

#include <algorithm>

#include "cpu/mvn_grad/cell_rows.h"
#include "cpu/mvn_grad/cell_states.h"
#include "cpu/mvn_grad/passed.h"
#include "cpu/mvn_grad/row_lanes.h"
#include "math/slope.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

/// Rows [first, first + n) of a tile: adds up w and w * z for the cells, h * z and h for the rows,
/// and turns the gradient into w. `counted` has bits in the lanes that stand for cells. kOwn: scale
/// and bias belong to the cells, which w is then without, and rows have no sums.
template <bool kOwn, class Pass>
[[gnu::noinline]] void take_strip(const float* x, float* grad, int64_t first, int64_t n,
                                  const TileConstants& c, const Pass& passing,
                                  const Vector<int32_t>* counted, CellRows& rows, TileSums& sums) {
  const TileNormalizer normal(c);
  TilePass<Pass> pass(passing, c);
  StripSums strip(sums);
  for (int64_t r = first; r < first + n; ++r) {
    Floats scale{}, hz_sum{}, h_sum{};
    float *const hz_lanes = rows.lanes[0].get() + r * kFloats, *const h_lanes =
                                                                   rows.lanes[1].get() +
                                                                   r * kFloats;
    if constexpr (!kOwn) {
      scale = broadcast(rows.scale[size_t(r)]);
      if constexpr (!std::is_same_v<Pass, Through>)
        for (Pass& of : pass.of) {
          of.factor = scale;
          of.shift = broadcast(rows.bias[size_t(r)]);
        }
      hz_sum = load_vector<Floats>(hz_lanes);
      h_sum = load_vector<Floats>(h_lanes);
    }
    float* const row = grad + r * kTileColumns;
#pragma GCC unroll 2
    for (int k = 0; k < kTileVectors; ++k) {
      float* const g = row + k * kFloats;
      const Floats z = normal(x + r * kTileColumns, k), all = pass.of[k](load_vector<Floats>(g), z),
                   h = same_bits<Floats>(same_bits<Vector<int32_t>>(all) & counted[k]);
      if constexpr (kOwn) {
        strip.add(k, h, z);
        if constexpr (!std::is_same_v<Pass, Through>) store_vector(g, h);
      } else {
        const Floats w = h * scale;
        hz_sum = fused(h, z, hz_sum);
        h_sum += h;
        strip.add(k, w, z);
        store_vector(g, w);
      }
    }
    if constexpr (!kOwn) {
      store_vector(hz_lanes, hz_sum);
      store_vector(h_lanes, h_sum);
    }
  }
  strip.put(sums);
  sums.settle();
}

/// Writes v of n rows; kOwn: with scales and biases of the cells.
template <bool kOwn>
[[gnu::noinline]] void evaluate_strip(const float* x, int64_t first, int64_t n,
                                      const TileConstants& c, const CellRows& rows, float* v) {
  const TileNormalizer normal(c);
  for (int64_t r = 0; r < n; ++r)
#pragma GCC unroll 2
    for (int k = 0; k < kTileVectors; ++k) {
      const Floats z = normal(x + (first + r) * kTileColumns, k);
      Floats scale, bias;
      if constexpr (kOwn) {
        scale = load_vector<Floats>(c.scale + k * kFloats);
        bias = load_vector<Floats>(c.bias + k * kFloats);
      } else {
        scale = broadcast(rows.scale[size_t(first + r)]);
        bias = broadcast(rows.bias[size_t(first + r)]);
      }
      store_vector(v + r * kTileColumns + k * kFloats, fused(scale, z, bias));
    }
}

/// The cells of one tile, whatever the type of their elements. kOwn: scale and bias belong to the
/// cells, not to their rows.
template <bool kOwn>
class CellTile {
 public:
  CellTile(const MvnGradPlan& plan, const Operands& operands)
      : plan_(plan), operands_(operands), rows_(plan.cell_size) {}

  /// Turns `grad` into dx; n cells are there, and `at` says where what belongs to
  /// them stands. Lanes behind them are 0.
  void run(const float* x, float* grad, const CellPlaces<kTileColumns>& at, int64_t n,
           CellRows& rows) {
    x_ = x;
    grad_ = grad;
    for (int k = 0; k < kTileVectors; ++k)
      for (int64_t l = 0; l < kFloats; ++l) counted_[k][l] = k * kFloats + l < n ? -1 : 0;
    if constexpr (kOwn) take_parameters(plan_, operands_, at, n, cells_);
    set_normalizers(at, n);
    sums_ = {};
    for (int64_t r = 0; r < rows_; r += kStripRows) pass_strip(r, rows);
    if (!plan_.wants_dx) return;
    set_means(at, n);
    for (int64_t r = 0; r < rows_; r += kStripRows)
      write_tile<kTileVectors>(of(x_, r), of(static_cast<const float*>(grad_), r),
                               TileRows<float>{grad_ + r * kTileColumns, kBufferRows.at, 0},
                               strip(r), TileConstants(cells_, 0), Through{},
                               {takes_product(plan_), false});
  }

  /// Of w and w * z, of each of these cells; of h and h * z if they have scales of their own.
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
      add_deviations<kTileVectors>(of(x_, r), strip(r), TileConstants(cells_, 0), sums_);
      sums_.settle();
    }
  }

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
      store_vector(cells_.pivot + c, mean - mean == 0 ? mean : Floats{});
    }
  }

  /// Of kDoubles cells from number c on.
  LaneMoments moments(int64_t c) const {
    return {plan_.use_mean, double(rows_), load_vector<Doubles>(sums_.first + c),
            load_vector<Doubles>(sums_.second + c)};
  }

  /// Of n cells; lanes behind them give 0.
  void set_normalizers(const CellPlaces<kTileColumns>& at, int64_t n) {
    if (plan_.are_given)
      take_given(plan_, operands_, at, n, cells_);
    else if (plan_.has_own_statistics())
      find_statistics();
    else
      std::fill_n(cells_.factor, kTileColumns, 1.0f);
    for (float* const lanes : {cells_.pivot, cells_.delta, cells_.factor})
      std::fill_n(lanes + n, kTileColumns - n, 0.0f);
  }

  void find_statistics() {
    std::fill_n(cells_.pivot, kTileColumns, 0.0f);
    if (plan_.use_mean) guess();
    add_moments();
    if (plan_.use_mean && correct_pivots()) add_moments();
    for (int64_t c = 0; c < kTileColumns; c += kDoubles) take_moments(plan_, moments(c), c, cells_);
  }

  /// Makes pivots that were far from the mean that; returns whether there were any.
  bool correct_pivots() {
    bool are_any = false;
    for (int64_t c = 0; c < kTileColumns; c += kDoubles) {
      const LaneMoments m = moments(c);
      const auto near = m.are_near();
      if (all_of(near)) continue;
      const Doubles pivot = as_doubles(load_vector<HalfFloats>(cells_.pivot + c)),
                    mean = finite_part(as_doubles(as_floats(pivot + m.delta)));
      store_vector(cells_.pivot + c, as_floats(near ? pivot : mean));
      are_any = true;
    }
    return are_any;
  }

  /// What dx takes off, and what w is multiplied by.
  void set_means(const CellPlaces<kTileColumns>& at, int64_t n) {
    if constexpr (!kOwn) std::fill_n(cells_.scale, kTileColumns, 1.0f);
    std::fill_n(cells_.shift, kTileColumns, -0.0f);
    std::fill_n(cells_.slope, kTileColumns, -0.0f);
    if (plan_.has_sums) return take_sums(plan_, operands_, at, n, cells_);
    if (!plan_.has_own_sums()) return;
    for (int64_t c = 0; c < kTileColumns; c += kDoubles) {
      const Doubles scale = as_doubles(load_vector<HalfFloats>(cells_.scale + c));
      const auto mean = [&](const double* sums) {
        return -as_floats(load_vector<Doubles>(sums + c) * scale / double(rows_));
      };
      if (plan_.use_mean) store_vector(cells_.shift + c, mean(sums_.first));
      if (plan_.use_variance) store_vector(cells_.slope + c, mean(sums_.second));
    }
  }

  void pass_strip(int64_t r, CellRows& rows) {
    const Activation& f = plan_.activation;
    const TileConstants c(cells_, 0);
    const int64_t n = strip(r);
    if (SwishPass::suits(f))
      return take_strip<kOwn>(x_, grad_, r, n, c, SwishPass(f, 0, 0), counted_, rows, sums_);
    if (f.kind != ActivationKind::identity) {
      float* const g = grad_ + r * kTileColumns;
      evaluate_strip<kOwn>(x_, r, n, c, rows, v_);
      pass_row(f, v_, g, v_, n * kTileColumns);
      std::copy_n(v_, n * kTileColumns, g);
    }
    take_strip<kOwn>(x_, grad_, r, n, c, Through{}, counted_, rows, sums_);
  }

  const MvnGradPlan& plan_;
  const Operands& operands_;
  const int64_t rows_;
  const float* x_ = nullptr;
  float* grad_ = nullptr;
  Vector<int32_t> counted_[kTileVectors];
  TileSums sums_;
  ColumnConstants<kTileColumns> cells_{};
  alignas(64) float v_[kStripRows * kTileColumns];
};

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
