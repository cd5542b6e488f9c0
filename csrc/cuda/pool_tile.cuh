// Windows of compile-time sizes over packed columns: one thread computes a tile of outputs from a
// tile of the input that it keeps in registers.
#pragma once

#include "cuda/grid.cuh"
#include "cuda/pool_max_vector_strips.cuh"
#include "cuda/pool_tile_rows.cuh"
#include "cuda/pool_vector_strips.cuh"

namespace cudml::cuda {

/// The outputs of a tile: joined values, and for winners the number of the best tap, -1 while the
/// first real one is.
template <class T, Pooled kWhat, class Tile>
struct TileOutputs {
  using V = Acc<T>;
  using Rows = TileRows<T, Tile, kWhat == Pooled::average && kIsHalf<T>>;
  V joined[Tile::kOutH][Tile::kOutW];
  int32_t tap[Tile::kOutH][Tile::kOutW];

  static __device__ __forceinline__ V none() {
    return kWhat == Pooled::average ? V{0} : max_of_none<T>();
  }
  __device__ __forceinline__ void clear() {
#pragma unroll
    for (int i = 0; i < Tile::kOutH; ++i)
#pragma unroll
      for (int j = 0; j < Tile::kOutW; ++j) {
        joined[i][j] = none();
        tap[i][j] = -1;
      }
  }

  __device__ __forceinline__ T value(int i, int j) const { return store_as<T>(joined[i][j]); }

  /// Joins one row of taps, numbered from `number` on. What is not real is none(), and never wins.
  __device__ __forceinline__ void join(V (&best)[Tile::kOutW], int32_t (&at)[Tile::kOutW],
                                       const V (&row)[Tile::kOutW],
                                       const int32_t (&column)[Tile::kOutW], int32_t number) {
#pragma unroll
    for (int j = 0; j < Tile::kOutW; ++j) {
      if constexpr (kWhat == Pooled::max) best[j] = max_of(best[j], row[j]);
      if constexpr (kWhat == Pooled::average) best[j] += row[j];
      if constexpr (kWhat == Pooled::winner) {
        const bool take = wins(best[j], row[j]);
        best[j] = take ? row[j] : best[j];
        at[j] = take ? number + column[j] : at[j];
      }
    }
  }

  /// Joins the rows of one plane, `first` being the number of its first tap.
  __device__ __forceinline__ void add(const Rows& in, int32_t first) {
#pragma unroll
    for (int r = 0; r < Tile::kInH; ++r) {
      V row[Tile::kOutW];
      int32_t column[Tile::kOutW];
#pragma unroll
      for (int j = 0; j < Tile::kOutW; ++j) {
        row[j] = in.value(r, j * Tile::kStride);
        column[j] = 0;
#pragma unroll
        for (int c = 1; c < Tile::kWidth; ++c) {
          const V v = in.value(r, j * Tile::kStride + c);
          if constexpr (kWhat == Pooled::max) row[j] = max_of(row[j], v);
          if constexpr (kWhat == Pooled::average) row[j] += v;
          if constexpr (kWhat == Pooled::winner) {
            const bool take = wins(row[j], v);
            row[j] = take ? v : row[j];
            column[j] = take ? c : column[j];
          }
        }
      }
#pragma unroll
      for (int i = 0; i < Tile::kOutH; ++i) {
        const int k = r - i * Tile::kStride;
        if (k >= 0 && k < Tile::kHeight)
          join(joined[i], tap[i], row, column, first + k * Tile::kWidth);
      }
    }
  }
};

/// Maxima of a tile of sixteen-bit floats, which no instruction takes apart: those of the columns
/// first, two side by side, then those along a row.
template <class T, class Tile>
struct TileMaxima {
  using Rows = TileRows<T, Tile, true>;
  uint32_t best[Tile::kOutH][Tile::kOutW / 2];

  static __device__ __forceinline__ float none() { return max_of_none<T>(); }
  __device__ __forceinline__ void clear() {
    const T lowest = store_as<T>(none());
#pragma unroll
    for (int i = 0; i < Tile::kOutH; ++i)
#pragma unroll
      for (int j = 0; j < Tile::kOutW / 2; ++j) best[i][j] = pair_of(lowest, lowest);
  }
  __device__ __forceinline__ T value(int i, int j) const {
    return half_of<T>(best[i][j / 2], j % 2);
  }

  /// Joins the rows of one plane.
  __device__ __forceinline__ void add(const Rows& in, int32_t) {
#pragma unroll
    for (int i = 0; i < Tile::kOutH; ++i) {
      uint32_t down[Rows::kColumns];
#pragma unroll
      for (int c = 0; c < Rows::kColumns; ++c) {
        down[c] = in.v[i * Tile::kStride][c];
#pragma unroll
        for (int k = 1; k < Tile::kHeight; ++k)
          down[c] = larger_pair<T>(down[c], in.v[i * Tile::kStride + k][c]);
      }
      const auto column = [&](int c) { return half_of<T>(down[c / 2], c % 2); };
#pragma unroll
      for (int j = 0; j < Tile::kOutW; j += 2)
#pragma unroll
        for (int k = 0; k < Tile::kWidth; ++k)
          best[i][j / 2] = larger_pair<T>(
              best[i][j / 2],
              pair_of(column(j * Tile::kStride + k), column((j + 1) * Tile::kStride + k)));
    }
  }
};

template <class T, Pooled kWhat, class Tile>
using OutputsOf = std::conditional_t<kWhat == Pooled::max && kIsHalf<T>, TileMaxima<T, Tile>,
                                     TileOutputs<T, kWhat, Tile>>;

/// Where a tile stands: its first output, and the first taps of that output.
template <class Tile>
struct TilePlace {
  PoolPlaceOf<int32_t> at;
  int32_t ih, iw;
  TapsOf<int32_t> depth;
  bool is_inside;

  __device__ __forceinline__ TilePlace(const PoolShape<int32_t>& s, const OutputOrder& order,
                                       uint32_t item)
      : at(order.place(item)) {
    at.space[2] *= Tile::kOutW;
    at.space[1] *= Tile::kOutH;
    ih = at.space[1] * s.axis[1].stride - s.axis[1].start;
    iw = at.space[2] * Tile::kStride - s.axis[2].start;
    depth = taps_at(s.axis[0], at.space[0]);
    is_inside =
        ih >= 0 && iw >= 0 && ih <= s.axis[1].in - Tile::kInH && iw <= s.axis[2].in - Tile::kInW;
  }
  __device__ __forceinline__ int32_t plane(const PoolShape<int32_t>& s, int32_t tap) const {
    return at.space[0] * s.axis[0].stride - s.axis[0].start + tap * s.axis[0].dilation;
  }
  /// Taps of output row `i` or column `j` of the tile.
  __device__ __forceinline__ TapsOf<int32_t> row_taps(const PoolShape<int32_t>& s, int i) const {
    if (is_inside) return {0, Tile::kHeight, Tile::kHeight};
    return taps_of<Tile::kHeight>(s.axis[1], at.space[1] + i);
  }
  __device__ __forceinline__ TapsOf<int32_t> column_taps(const PoolShape<int32_t>& s, int j) const {
    if (is_inside) return {0, Tile::kWidth, Tile::kWidth};
    return taps_of<Tile::kWidth>(s.axis[2], at.space[2] + j);
  }

 private:
  template <int kWindow>
  static __device__ __forceinline__ TapsOf<int32_t> taps_of(PoolAxisOf<int32_t> a, int32_t o) {
    a.window = kWindow;
    a.dilation = 1;  // as in every plan that comes here
    return taps_at(a, o);
  }
};

template <class T, class Tile, class Outputs>
__device__ __forceinline__ void load_and_join(const PoolShape<int32_t>& s, const TileAccess& access,
                                              const TilePlace<Tile>& place, const T* x,
                                              Outputs& out) {
  const T filler = store_as<T>(out.none());
  const int32_t step = s.x.space[1], in_h = s.axis[1].in, in_w = s.axis[2].in;
  const int32_t body = place.iw + access.lead;
  const bool in_vectors = access.lead >= 0 && body >= 0 && body <= in_w - Tile::kBody;
#pragma unroll 1
  for (int32_t k = place.depth.first; k < place.depth.last; ++k) {
    const T* plane = x + place.at.plane(s.x) + place.plane(s, k) * s.x.space[0];
    typename Outputs::Rows in;
    const auto load = [&]<int kLead>() {
      if (access.pairs)
        in.template load<kLead, 2>(plane, step, place.ih, place.iw, in_h, in_w, filler);
      else
        in.template load<kLead, Tile::kVectorN>(plane, step, place.ih, place.iw, in_h, in_w,
                                                filler);
    };
    if (!in_vectors)
      in.load_single(plane, step, place.ih, place.iw, in_h, in_w, filler);
    else if (access.lead == 0)
      load.template operator()<0>();
    else if constexpr (Tile::kWidth > Tile::kStride)
      load.template operator()<1>();
    out.add(in, (k - place.depth.first) * (Tile::kHeight * Tile::kWidth));
  }
}

template <class T, class Tile>
__device__ __forceinline__ void store_averages(const PoolShape<int32_t>& s,
                                               const TileAccess& access,
                                               const TilePlace<Tile>& place, T* y,
                                               const TileOutputs<T, Pooled::average, Tile>& out) {
  const bool padded = s.include_padding;
  const auto counted = [padded](const TapsOf<int32_t>& t) { return padded ? t.inside : t.real(); };
  const int32_t at = place.at.offset(s.y), n = s.axis[2].out - place.at.space[2];
  int32_t columns[Tile::kOutW];
#pragma unroll
  for (int j = 0; j < Tile::kOutW; ++j) columns[j] = counted(place.column_taps(s, j));
#pragma unroll
  for (int i = 0; i < Tile::kOutH; ++i) {
    if (place.at.space[1] + i >= s.axis[1].out) break;
    const auto rows = Acc<T>(int64_t{counted(place.depth)} * counted(place.row_taps(s, i)));
    T row[Tile::kOutW];
#pragma unroll
    for (int j = 0; j < Tile::kOutW; ++j)
      row[j] = store_as<T>(average_of(out.joined[i][j], rows * Acc<T>(columns[j])));
    store_row(y + at + i * s.y.space[1], s.y.space[2], row, n, access.y_vectors);
  }
}

template <class T, class Tile>
__device__ __forceinline__ void store_maxima(const PoolShape<int32_t>& s, const TileAccess& access,
                                             const TilePlace<Tile>& place, T* y,
                                             const OutputsOf<T, Pooled::max, Tile>& out) {
  const int32_t at = place.at.offset(s.y), n = s.axis[2].out - place.at.space[2];
#pragma unroll
  for (int i = 0; i < Tile::kOutH; ++i) {
    if (place.at.space[1] + i >= s.axis[1].out) break;
    T row[Tile::kOutW];
#pragma unroll
    for (int j = 0; j < Tile::kOutW; ++j) row[j] = out.value(i, j);
    store_row(y + at + i * s.y.space[1], s.y.space[2], row, n, access.y_vectors);
  }
}

/// Where a winner stands in its plane of x; `none` where the window has no real tap.
struct WinnerPlace {
  int32_t space[3];
  bool none;

  __device__ __forceinline__ int32_t offset(const PoolStridesOf<int32_t>& strides) const {
    return space[0] * strides.space[0] + space[1] * strides.space[1] + space[2] * strides.space[2];
  }
};

/// Decodes the tap number of output (i, j) of a tile, which counts from the first real plane on:
/// all planes of a window may be more than 32 bits hold. One that was never chosen is the first
/// real tap.
template <class Tile>
__device__ __forceinline__ WinnerPlace winner_at(const PoolShape<int32_t>& s,
                                                 const TilePlace<Tile>& place, int i, int j,
                                                 int32_t tap) {
  const TapsOf<int32_t> rows = place.row_taps(s, i), columns = place.column_taps(s, j);
  const bool is_first = tap < 0;
  const uint32_t line = uint32_t(tap) / Tile::kWidth, column = uint32_t(tap) - line * Tile::kWidth;
  const int32_t d = place.depth.first + (is_first ? 0 : int32_t(line / Tile::kHeight));
  const int32_t h = is_first ? rows.first : int32_t(line % Tile::kHeight);
  const int32_t w = is_first ? columns.first : int32_t(column);
  return {{place.plane(s, d), place.ih + i * Tile::kStride + h, place.iw + j * Tile::kStride + w},
          place.depth.real() == 0 || rows.real() == 0 || columns.real() == 0};
}

template <class T, class Tile>
__device__ __forceinline__ void store_winners(const PoolShape<int32_t>& s, const TileAccess& access,
                                              const TilePlace<Tile>& place, const T* x, T* y,
                                              void* indices,
                                              const TileOutputs<T, Pooled::winner, Tile>& out) {
  const int32_t y_at = place.at.offset(s.y), index_at = place.at.offset(s.indices);
  const int32_t n = s.axis[2].out - place.at.space[2];
  const int32_t x_from = place.at.plane(s.x), flat_from = place.at.plane(s.flat);
#pragma unroll
  for (int i = 0; i < Tile::kOutH; ++i) {
    if (place.at.space[1] + i >= s.axis[1].out) break;
    T row[Tile::kOutW];
    int32_t flat[Tile::kOutW];
#pragma unroll
    for (int j = 0; j < Tile::kOutW; ++j) {
      const WinnerPlace at = winner_at(s, place, i, j, out.tap[i][j]);
      flat[j] = at.none ? -1 : flat_from + at.offset(s.flat);
      row[j] = out.value(i, j);
      // Conversion changes the bits of sixteen-bit NaN.
      if (kIsHalf<T> && y && is_nan(out.joined[i][j]) && j < n) row[j] = x[x_from + at.offset(s.x)];
    }
    if (y) store_row(y + y_at + i * s.y.space[1], s.y.space[2], row, n, access.y_vectors);
    store_indices(s, indices, index_at + i * s.indices.space[1], s.indices.space[2], flat, n,
                  access.index_vectors);
  }
}

/// Windows that walk down columns where depth has windows of one: averages down any, maxima down
/// whole vectors of them.
template <class T, Pooled kWhat, int kH, int kW, int kS>
inline constexpr bool kHasStrips =
    kH == 3 && kW == 3 &&
    (kWhat == Pooled::average ? kS == 1 : kWhat == Pooled::max && sizeof(T) > 1);

/// `order` counts tiles of kOutH x kOutW outputs, or strips.
template <class T, Pooled kWhat, int kH, int kW, int kS>
__global__ void __launch_bounds__(kPoolThreads, kHasStrips<T, kWhat, kH, kW, kS>&& kS == 1 ? 3 : 2)
    pool_tile_kernel(PoolShape<int32_t> s, OutputOrder order, uint32_t tiles, TileAccess access,
                     const T* x, T* y, void* indices) {
  using Shape = Tile<T, kH, kW, kS>;
  if constexpr (kHasStrips<T, kWhat, kH, kW, kS>) {
    if (access.strip_rows > 0) {
      if constexpr (kWhat == Pooled::max)
        return max_strips<kS>(s, order, tiles, access.strip_rows, x, y);
      else
        return average_strips(s, order, tiles, access.strip_rows, access.strip_vectors, x, y);
    }
  }
  for (uint32_t i = loop_begin<kPoolThreads>(); i < tiles; i += loop_step<kPoolThreads>()) {
    const TilePlace<Shape> place(s, order, i);
    OutputsOf<T, kWhat, Shape> out;
    out.clear();
    load_and_join(s, access, place, x, out);
    if constexpr (kWhat == Pooled::winner) store_winners(s, access, place, x, y, indices, out);
    if constexpr (kWhat == Pooled::max) store_maxima(s, access, place, y, out);
    if constexpr (kWhat == Pooled::average) store_averages(s, access, place, y, out);
  }
}

}  // namespace cudml::cuda
