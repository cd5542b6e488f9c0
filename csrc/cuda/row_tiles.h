// Cutting rows of work into tiles, one after another for each block: some whole rows, or a part of
// one. A unit is what a thread takes at a time.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/fast_div.h"
#include "cuda/choose.h"

namespace cudml::cuda {

inline constexpr uint32_t kTileThreads = 256;

struct RowTiles {
  uint32_t rows = 1, tile_rows = 1;
  uint32_t units = 1, tile_units = 1, parts = 1;  // of a row
  int64_t tiles = 0;
};

/// Tiles of whole rows that cost about 1024 units together, four for each thread, or of up to 1024
/// units of one row; finer where there would be fewer than 512 tiles. `most_rows` bounds the shared
/// memory.
inline RowTiles cut_rows(int64_t rows, int64_t units, int64_t row_cost, int64_t most_rows) {
  constexpr int64_t kThreads = kTileThreads, kUnits = 4 * kThreads, kFewest = 512;
  RowTiles t;
  t.rows = uint32_t(rows);
  t.units = uint32_t(units);
  const int64_t fair = (rows + kFewest - 1) / kFewest;
  t.tile_rows = uint32_t(std::clamp(kUnits / row_cost, int64_t{1}, std::min(fair, most_rows)));
  int64_t most = kUnits;
  if (t.tile_rows == 1) most = std::clamp(units * rows / kFewest, kThreads, kUnits);
  t.parts = uint32_t((units + most - 1) / most);
  t.tile_units = uint32_t((units + t.parts - 1) / t.parts);
  t.tiles = int64_t((t.rows + t.tile_rows - 1) / t.tile_rows) * t.parts;
  return t;
}

inline uint32_t blocks_of(const RowTiles& t) {
  return uint32_t(std::min(t.tiles, kMostLoopBlocks));
}

}  // namespace cudml::cuda
