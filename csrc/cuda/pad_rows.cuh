// Padding row by row: where each row of a tile comes from is found once, by one thread, and shared.
// No map is computed on the host: a launch then needs no copy to the device, and can be captured.
#pragma once

#include "cuda/pad_kernels.h"
#include "cuda/row_tiles.cuh"
#include "cuda/vector.cuh"

namespace cudml::cuda {

using Bytes16 = Vector<uint32_t, 4>;

/// Where a row begins.
__device__ inline PadRow find_row(const PadRows& rows, uint32_t number) {
  PadRow row{0, 0};
  bool is_constant = false;
  for (int d = rows.outer_rank - 1; d >= 0; --d) {
    const PadOuter& o = rows.outer[d];
    uint32_t at = number;
    number = o.out.divide(at);
    const int64_t source = border_index(o.mode, int64_t(at) - o.start, o.in);
    is_constant |= source < 0;
    row.x += source * o.x_stride;
    row.y += int64_t(at) * o.y_stride;
  }
  if (is_constant) row.x = -1;
  return row;
}

/// The element of the row that the border rule puts at position `at`; -1 for the constant.
__device__ inline int32_t border_source(const PadRows& rows, int32_t at) {
  uint32_t element = uint32_t(at);
  const int32_t position = int32_t(rows.by_run.divide(element));
  const int32_t i = border_index(rows.mode, position - rows.runs_start, rows.runs_in);
  return i < 0 ? -1 : i * rows.run + int32_t(element);
}

/// Sources of a row's border elements, start and end side by side, looked up where they are few.
__device__ inline void fill_map(const PadRows& rows, int32_t* map) {
  const int32_t at = int32_t(threadIdx.x);
  if (!rows.has_map || at >= rows.out - rows.in) return;
  map[at] = border_source(rows, at < rows.start ? at : at + rows.in);
}

/// The element of the row that stands at position `at` of the result's row; -1 for the constant.
__device__ inline int32_t source_of(const PadRows& rows, const int32_t* map, int32_t at) {
  const int32_t i = at - rows.start;
  if (uint32_t(i) < uint32_t(rows.in)) return i;
  if (rows.has_map) return map[i < 0 ? at : at - rows.in];
  return border_source(rows, at);
}

/// One element at a time, of any strides; 16-byte elements make it the vector copy.
template <class T>
__global__ void __launch_bounds__(kPadThreads)
    pad_strided_kernel(PadRows rows, const T* __restrict__ x, T* __restrict__ y, T value) {
  DEVICE_SHARED(map, int32_t[kPadMap]);
  DYNAMIC_SHARED(table, PadRow);
  fill_map(rows, map);
  const auto find = [&](uint32_t row) { return find_row(rows, row); };
  for_tiles(rows.tiles, table, find, [&](const RowTile& tile) {
    const uint32_t n = tile.units();
    for (uint32_t first = threadIdx.x; first < n; first += 4 * kPadThreads) {
      T element[4];
      T* to[4];
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        uint32_t unit = first + uint32_t(k) * kPadThreads;
        to[k] = nullptr;
        if (unit >= n) continue;
        const uint32_t r = rows.tiles.tile_rows == 1 ? 0 : rows.by_units.divide(unit);
        const PadRow row = table[r];
        const int32_t at = int32_t(tile.begin + unit), i = source_of(rows, map, at);
        element[k] = value;
        if (row.x >= 0 && i >= 0) element[k] = x[row.x + i * rows.x_stride];
        to[k] = y + row.y + at * rows.y_stride;
      }
#pragma unroll
      for (int k = 0; k < 4; ++k)
        if (to[k]) *to[k] = element[k];
    }
  });
}

}  // namespace cudml::cuda
