// Gradient of Lp pooling row by row: each thread gathers what windows hand to a vector of columns.
#pragma once

#include "cuda/pool_grad_parts.cuh"
#include "cuda/pool_grad_rows.cuh"
#include "math/lp_slope.h"

namespace cudml::cuda {

/// Elements of a vector of columns of which [begin, end) are there; others are 0.
template <class T, int kN>
__device__ __forceinline__ void load_columns(const T* from, int32_t begin, int32_t end,
                                             float (&taps)[kN]) {
  const bool is_whole = begin <= 0 && end >= kN;
  if (is_whole && reinterpret_cast<uintptr_t>(from) % kGradVectorBytes == 0)
    return widen(load_vector<kN>(from), taps);
#pragma unroll
  for (int v = 0; v < kN; ++v) taps[v] = v >= begin && v < end ? load_as_acc(from[v]) : 0;
}

/// x and result have the same strides; rows.winners are those of the norms.
template <class T>
__global__ void __launch_bounds__(kPoolGradThreads, kPoolGradBlocks)
    lp_pool_grad_row_kernel(GradRows rows, const T* x, LpNorms<T> norms, const T* grad, T* result,
                            uint32_t p) {
  constexpr int kN = kVector<T>;
  DYNAMIC_SHARED(table, GradRow);
  const GradAxis& w = rows.axis[2];
  const auto find = [&](uint32_t number) { return find_row(rows, number); };
  for_tiles(rows.tiles, table, find, [&](const RowTile& tile) {
    for (uint32_t n = threadIdx.x; n < tile.units(); n += kPoolGradThreads) {
      const GradColumns c = columns_of<kN>(rows, table, tile, n, result);
      float taps[kN], sums[kN] = {};
      load_columns(x + c.row.result + c.at, -c.at, w.in - c.at, taps);
      for_lines(rows, c.row, [&](int32_t line, int32_t norm_line, int32_t, int32_t) {
        for (int32_t o = c.windows.first; o <= c.windows.last; ++o) {
          const float g = load_as_acc(grad[line + o * rows.grad.space[2]]);
          const float norm = p == 1 ? 1 : norms.at(norm_line + o * rows.winners.space[2]);
          const int32_t begin = o * w.stride - w.start - c.at;
#pragma unroll
          for (int v = 0; v < kN; ++v)
            if (uint32_t(v - begin) < uint32_t(w.window)) sums[v] += lp_share(taps[v], norm, g, p);
        }
      });
      store_row_columns(c, w.in, result, sums);
    }
  });
}

}  // namespace cudml::cuda
