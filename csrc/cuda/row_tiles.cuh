// Walking tiles of rows on the device: what a row needs is found once, by one thread, and shared.
#pragma once

#include "cuda/launch.cuh"
#include "cuda/row_tiles.h"
#include "cuda/shared.cuh"

namespace cudml::cuda {

/// Rows [row, row + rows), of each the units [begin, end).
struct RowTile {
  uint32_t row, rows, begin, end;

  __device__ uint32_t units() const { return rows * (end - begin); }
};

__device__ inline RowTile tile_of(const RowTiles& t, int64_t number) {
  const int64_t group = t.parts == 1 ? number : number / t.parts;
  const uint32_t row = uint32_t(group) * t.tile_rows;
  const uint32_t begin = uint32_t(number - group * t.parts) * t.tile_units;
  return {row, min(t.tile_rows, t.rows - row), begin, min(begin + t.tile_units, t.units)};
}

/// Calls fn(tile) for each tile of this block, with find(row) for each of its rows in `table`.
template <class Row, class Find, class Fn>
__device__ __forceinline__ void for_tiles(const RowTiles& t, Row* table, Find&& find, Fn&& fn) {
  for (int64_t number = blockIdx.x; number < t.tiles; number += gridDim.x) {
    const RowTile tile = tile_of(t, number);
    for (uint32_t r = threadIdx.x; r < tile.rows; r += kTileThreads) table[r] = find(tile.row + r);
    __syncthreads();
    fn(tile);
    __syncthreads();
  }
}

}  // namespace cudml::cuda
