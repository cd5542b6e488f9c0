// Tiles of windows of compile-time sizes over packed columns, and the rows of the input that one
// needs, in registers.
#pragma once

#include "cuda/pool_pairs.cuh"
#include "cuda/pool_walk.cuh"

namespace cudml::cuda {

/// Windows of kH x kW taps, kS apart along columns, and along rows where kH > 1. Planes along the
/// depth may have any window.
template <class T, int kH, int kW, int kS>
struct Tile {
  static constexpr int kHeight = kH, kWidth = kW, kStride = kS;
  static constexpr int kOutH = tile_rows(kH), kOutW = tile_columns(sizeof(T), kH, kS);
  static constexpr int kInH = (kOutH - 1) * kS + kH, kInW = (kOutW - 1) * kS + kW;
  /// The columns of a row that no other tile loads as its own.
  static constexpr int kBody = kOutW * kS;
  /// The vectors that a row's body is loaded in.
  static constexpr int kVectorN = kBody < kVector<T> ? kBody : kVector<T>;
};

/// What memory allows: the place of a body in its row, -1 where it cannot be loaded in vectors, and
/// whether those have only two elements.
struct TileAccess {
  int32_t lead = -1;
  bool pairs = false, y_vectors = false, index_vectors = false;
  int32_t strip_rows = 0;      // of outputs, where threads walk down columns instead
  bool strip_vectors = false;  // of a vector of columns at a time
};

/// `kInPairs`: columns 2i and 2i + 1 share a register.
template <class T, class Tile, bool kInPairs = false>
struct TileRows {
  static constexpr int kColumns = kInPairs ? (Tile::kInW + 1) / 2 : Tile::kInW;
  std::conditional_t<kInPairs, uint32_t, T> v[Tile::kInH][kColumns];

  __device__ __forceinline__ Acc<T> value(int r, int c) const {
    if constexpr (kInPairs)
      return load_as_acc(half_of<T>(v[r][c / 2], c % 2));
    else
      return load_as_acc(v[r][c]);
  }

  /// Loads rows of which at least the bodies lie inside, in vectors of kN: all of them are on their
  /// way before one is taken apart.
  template <int kLead, int kN>
  __device__ __forceinline__ void load(const T* plane, int32_t step, int32_t ih, int32_t iw,
                                       int32_t in_h, int32_t in_w, T filler) {
    using Part = CarrierOf<int(kN * sizeof(T))>;
    Vector<T, kN> fillers;
#pragma unroll
    for (int j = 0; j < kN; ++j) fillers.v[j] = filler;
    Part body[Tile::kInH][Tile::kBody / kN];
    T line[Tile::kInH][Tile::kInW];
#pragma unroll
    for (int r = 0; r < Tile::kInH; ++r) {
      const bool is_real = uint32_t(ih + r) < uint32_t(in_h);
      const T* row = plane + int64_t{ih + r} * step + iw;
#pragma unroll
      for (int i = 0; i < Tile::kBody / kN; ++i) {
        body[r][i] = std::bit_cast<Part>(fillers);
        if (is_real) body[r][i] = reinterpret_cast<const Part*>(row + kLead)[i];
      }
#pragma unroll
      for (int i = 0; i < Tile::kInW; ++i)
        if (i < kLead || i >= kLead + Tile::kBody)
          line[r][i] = is_real && uint32_t(iw + i) < uint32_t(in_w) ? row[i] : filler;
    }
#pragma unroll
    for (int r = 0; r < Tile::kInH; ++r) {
#pragma unroll
      for (int i = 0; i < Tile::kBody; i += kN) {
        const auto taps = unpacked<T>(body[r][i / kN]);
#pragma unroll
        for (int j = 0; j < kN; ++j) line[r][kLead + i + j] = taps.v[j];
      }
      keep(r, line[r]);
    }
  }

  /// Loads rows of which any part may lie outside.
  __device__ __forceinline__ void load_single(const T* plane, int32_t step, int32_t ih, int32_t iw,
                                              int32_t in_h, int32_t in_w, T filler) {
#pragma unroll
    for (int r = 0; r < Tile::kInH; ++r) {
      const bool is_real = uint32_t(ih + r) < uint32_t(in_h);
      const T* row = plane + int64_t{ih + r} * step + iw;
      T line[Tile::kInW];
#pragma unroll
      for (int i = 0; i < Tile::kInW; ++i)
        line[i] = is_real && uint32_t(iw + i) < uint32_t(in_w) ? row[i] : filler;
      keep(r, line);
    }
  }

 private:
  __device__ __forceinline__ void keep(int r, const T (&line)[Tile::kInW]) {
#pragma unroll
    for (int i = 0; i < kColumns; ++i)
      if constexpr (kInPairs)
        v[r][i] = pair_of(line[2 * i], line[2 * i + 1 < Tile::kInW ? 2 * i + 1 : 2 * i]);
      else
        v[r][i] = line[i];
  }
};

}  // namespace cudml::cuda
