// Packed cells put side by side as floats, and taken back.
#pragma once

#include "cpu/mvn_grad/column_tiles.h"
#include "cpu/simd/float_squares.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

/// The cells of a tile, of n elements each: where each begins, and how far behind it, in elements,
/// the next tile's does. T is const where cells are read.
template <class T>
struct TurnedCells {
  T* at[kTileColumns];
  int64_t n, ahead;
};

/// Element i of cell k becomes tile[i * kTileColumns + k].
template <class T>
[[gnu::noinline]] void turn_in(const TurnedCells<const T>& cells, float* tile) {
  static_assert(kSide<uint32_t> == kFloats);
  for (int64_t lane = 0; lane < kTileColumns; lane += kFloats) {
    const T* const* const from = cells.at + lane;
    for_squares(cells.n, [&](int64_t i, auto m) {
      Floats rows[kFloats];
#pragma GCC unroll 16
      for (int64_t r = 0; r < kFloats; ++r) {
        __builtin_prefetch(from[r] + i + cells.ahead, 0, 3);
        rows[r] = load_wide(from[r] + i, m);
      }
      turn_floats(rows);
      const int64_t count = std::min(kFloats, cells.n);
#pragma GCC unroll 16
      for (int64_t r = 0; r < kFloats; ++r)
        if (r < count) store_vector(tile + (i + r) * kTileColumns + lane, rows[r]);
    });
  }
}

/// Takes `count` cells back.
template <class T>
[[gnu::noinline]] void turn_out(const TurnedCells<T>& cells, int64_t count, const float* tile) {
  for (int64_t lane = 0; lane < count; lane += kFloats) {
    T* const* const to = cells.at + lane;
    const int64_t here = std::min(kFloats, count - lane);
    for_squares(cells.n, [&](int64_t i, auto m) {
      Floats rows[kFloats];
      const int64_t last = cells.n - 1;
#pragma GCC unroll 16
      for (int64_t r = 0; r < kFloats; ++r)
        rows[r] = load_vector<Floats>(tile + std::min(i + r, last) * kTileColumns + lane);
      turn_floats(rows);
#pragma GCC unroll 16
      for (int64_t r = 0; r < kFloats; ++r)
        if (r < here) store_narrow(to[r] + i, rows[r], m);
    });
  }
}

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
