// Totals along packed rows, of which each row has a term for every element: threads follow a few
// columns down the rows.
#pragma once

#include "cuda/mvn_grad_generic.cuh"
#include "cuda/mvn_grad_parts.h"

namespace cudml::cuda {

/// How the rows lie and who adds them up: `lanes` threads side by side take kMvnGradColumns
/// elements of a row each, the others of a block take the next rows, and `parts` blocks a share of
/// them.
struct MvnGradRowTotals {
  MvnGradWalk rows;
  int64_t length, scale_step, bias_step;  // elements; 0 or 1 along a row
  int64_t tiles, parts, part_rows;
  int lanes;
  bool is_x_aligned, is_grad_aligned;  // every access is one aligned vector

  MvnGradRowTotals(const MvnGradPlan& plan, const Operands& o, const MvnGradCut& cut)
      : length(plan.cell_size),
        scale_step(plan.reduced[0].scale),
        bias_step(plan.reduced[0].bias),
        tiles(cut.tiles),
        parts(cut.parts),
        part_rows((plan.cells + cut.parts - 1) / cut.parts),
        lanes(int(cut.lanes)),
        is_x_aligned(is_aligned(plan, &MvnGradAxis::x, o.inputs[0])),
        is_grad_aligned(is_aligned(plan, &MvnGradAxis::grad, o.inputs[1])) {
    const MvnGradCellStrides cells(plan);
    for (int d = 0; d < plan.kept_rank; ++d)
      rows.add(plan.kept[d].size, step_of(plan.kept[d], cells.kept[d]));
  }

 private:
  static bool is_aligned(const MvnGradPlan& plan, int64_t MvnGradAxis::* stride, const void* data) {
    const int64_t bytes = kMvnGradColumns * int64_t(size_of(plan.dtype));
    bool is_whole =
        plan.cell_size % kMvnGradColumns == 0 && reinterpret_cast<uintptr_t>(data) % bytes == 0;
    for (int d = 0; d < plan.kept_rank; ++d)
      is_whole &= plan.kept[d].*stride % kMvnGradColumns == 0;
    return is_whole;
  }
};

/// A thread's columns.
template <class T>
struct MvnGradTotalColumns {
  static constexpr int kN = kMvnGradColumns;
  static constexpr int kRows = kMvnGradColumnRows / (sizeof(T) / 2);  // on their way together
  using Packed = CarrierOf<kN* int(sizeof(T))>;

  const MvnGradArgs<T>& args;
  const MvnGradRowTotals& of;
  int64_t column;
  int count;  // that exist

  __device__ __forceinline__ MvnGradTotalColumns(const MvnGradArgs<T>& args,
                                                 const MvnGradRowTotals& of, int64_t tile)
      : args(args), of(of), column((tile * of.lanes + threadIdx.x % of.lanes) * kN) {
    const int64_t left = of.length - column;
    count = int(left < 0 ? 0 : left < kN ? left : kN);
  }

  __device__ __forceinline__ Packed load(const T* row, bool is_aligned) const {
    if (is_aligned) return *reinterpret_cast<const Packed*>(row + column);
    Vector<T, kN> values = {};
#pragma unroll
    for (int e = 0; e < kN; ++e)
      if (e < count) values.v[e] = row[column + e];
    return std::bit_cast<Packed>(values);
  }

  /// h in place of grad.
  __device__ __forceinline__ void pass(const float (&z)[kN], float (&grad)[kN]) const {
    float scale[kN], bias[kN];
#pragma unroll
    for (int e = 0; e < kN; ++e) {
      scale[e] = e < count ? args.scale.at((column + e) * of.scale_step) : 1.0f;
      bias[e] = e < count ? args.bias.at((column + e) * of.bias_step) : 0.0f;
    }
    args.pass(z, scale, bias, grad);
  }

  /// The sums of h * z and of h over every steps-th of some rows: a few in float, these in double.
  __device__ __forceinline__ void add(int64_t begin, int64_t end, int steps,
                                      const MvnGradState<float>* states,
                                      double (&sums)[2][kN]) const {
    for (int64_t row = begin; row < end; row += kRows * steps) {
      Packed x[kRows] = {}, grad[kRows] = {};
      Normalizer<float> normal[kRows];
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
        if (row + r * steps >= end) break;
        const MvnGradPlace at = of.rows.at(row + r * steps);
        if (args.reads_x) x[r] = load(args.x + at.x, of.is_x_aligned);
        grad[r] = load(args.grad + at.grad, of.is_grad_aligned);
        normal[r] = states[at.cell].normal;
      }
      float some[2][kN] = {};
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
        if (row + r * steps >= end) break;
        float z[kN], h[kN];
        widen(unpacked<T>(x[r]), z);
        widen(unpacked<T>(grad[r]), h);
#pragma unroll
        for (int e = 0; e < kN; ++e) z[e] = args.reads_x ? normal[r](z[e]) : 0.0f;
        if (args.activation != ActivationKind::identity) pass(z, h);
#pragma unroll
        for (int e = 0; e < kN; ++e) {
          some[0][e] = fused(h[e], z[e], some[0][e]);
          some[1][e] += h[e];
        }
      }
#pragma unroll
      for (int e = 0; e < kN; ++e) {
        sums[0][e] += some[0][e];
        sums[1][e] += some[1][e];
      }
    }
  }
};

/// What the parts of the rows add up to, as mvn_grad_total_kernel leaves it.
template <class T>
__global__ __launch_bounds__(kMvnGradThreads, 2) void mvn_grad_row_total_kernel(
    const MvnGradArgs<T> args, const MvnGradRowTotals of, const MvnGradState<float>* states,
    Total<float>* first, Total<float>* second) {
  constexpr int kN = kMvnGradColumns;
  DEVICE_SHARED(scratch, Raw<double>[kN * kMvnGradThreads]);
  const int steps = kMvnGradThreads / of.lanes, width = of.lanes * kN;
  for (int64_t unit = blockIdx.x; unit < of.tiles * of.parts; unit += gridDim.x) {
    const int64_t part = unit / of.tiles, tile = unit - part * of.tiles;
    const MvnGradTotalColumns<T> columns(args, of, tile);
    double sums[2][kN] = {};
    const int64_t begin = part * of.part_rows, end = min(begin + of.part_rows, of.rows.count);
    if (columns.count > 0) columns.add(begin + threadIdx.x / of.lanes, end, steps, states, sums);
#pragma unroll
    for (int k = 0; k < 2; ++k) {
      Total<float>* const to = k == 0 ? first : second;
      if (!to) continue;
      __syncthreads();
#pragma unroll
      for (int e = 0; e < kN; ++e) scratch[threadIdx.x * kN + e].value() = sums[k][e];
      __syncthreads();
      for (int c = int(threadIdx.x); c < width; c += kMvnGradThreads) {
        if (tile * width + c >= of.length) break;
        Total<float> total;
        for (int s = 0; s < steps; ++s) total.add(scratch[s * width + c].value());
        to[part * of.length + tile * width + c] = total;
      }
    }
  }
}

}  // namespace cudml::cuda
