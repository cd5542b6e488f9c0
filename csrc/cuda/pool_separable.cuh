// Windows that overlap, of any size and dilation, over packed columns: a block brings the rows of a
// tile of outputs into shared memory, joins the taps of each column, then those of a row of joined
// columns, so that an output of kH x kW taps costs kH + kW steps.
#pragma once

#include "cuda/grid.cuh"
#include "cuda/pool_one.cuh"
#include "cuda/pool_pairs.cuh"
#include "cuda/shared.cuh"

namespace cudml::cuda {

/// Vectors that a thread asks for before it keeps one.
inline constexpr int kSeparableBatch = 4;

/// What memory allows, and how the parts of a tile are counted.
struct SeparableAccess {
  SeparableTile tile;
  FastDiv by_units, by_width, by_columns;  // vectors and elements of a row of the tile, outputs
  bool has_vectors;                        // the input's rows are aligned vectors of 16 bytes
};

/// Joined columns: maxima as they are stored, sums in what they are computed in.
template <class T, Pooled kWhat>
using Joined = std::conditional_t<kWhat == Pooled::max, T, Acc<T>>;

template <class T, Pooled kWhat>
__device__ __forceinline__ T separable_filler() {
  return kWhat == Pooled::max ? store_as<T>(max_of_none<T>()) : T{};
}

/// A tile's outputs from (row, column) on, and where their first taps stand in a plane of x; the
/// tile in shared memory begins `lead` columns before, at a multiple of the vector's elements.
struct SeparablePlace {
  PoolPlaceOf<int32_t> at;
  TapsOf<int32_t> depth;
  int32_t row, column, lead, rows, columns;

  template <int kN>
  static __device__ __forceinline__ SeparablePlace of(const PoolShape<int32_t>& s,
                                                      const SeparableTile& tile,
                                                      PoolPlaceOf<int32_t> at) {
    SeparablePlace p;
    at.space[1] *= tile.rows;
    at.space[2] *= tile.columns;
    p.at = at;
    p.depth = taps_at(s.axis[0], at.space[0]);
    p.row = at.space[1] * s.axis[1].stride - s.axis[1].start;
    p.column = at.space[2] * s.axis[2].stride - s.axis[2].start;
    p.lead = p.column & (kN - 1);  // of negative columns too
    p.rows = min(tile.rows, s.axis[1].out - at.space[1]);
    p.columns = min(tile.columns, s.axis[2].out - at.space[2]);
    return p;
  }
};

/// Brings the tile's part of a plane of x, with `filler` for what lies outside.
template <class T>
__device__ __forceinline__ void load_tile(const PoolShape<int32_t>& s, const SeparableAccess& a,
                                          const SeparablePlace& p, bool is_plane, const T* plane,
                                          T filler, T* tile) {
  const int32_t in_h = is_plane ? s.axis[1].in : 0, in_w = s.axis[2].in;
  const auto load = [&]<int kN>(const FastDiv& by_units) {
    const int32_t n = a.tile.in_rows * int32_t(by_units.divisor);
    for (int32_t begin = int32_t(threadIdx.x); begin < n;
         begin += kSeparableBatch * int32_t(kPoolThreads)) {
      Vector<T, kN> loaded[kSeparableBatch];
#pragma unroll
      for (int k = 0; k < kSeparableBatch; ++k) {
        uint32_t unit = uint32_t(begin + k * int32_t(kPoolThreads));
        const int32_t row = p.row + int32_t(by_units.divide(unit));
        const int32_t column = p.column - p.lead + int32_t(unit) * kN;
#pragma unroll
        for (int e = 0; e < kN; ++e) loaded[k].v[e] = filler;
        if (uint32_t(row) < uint32_t(in_h) && uint32_t(column) < uint32_t(in_w))
          loaded[k] = load_vector<kN>(plane + row * s.x.space[1] + column);
      }
#pragma unroll
      for (int k = 0; k < kSeparableBatch; ++k) {
        const int32_t unit = begin + k * int32_t(kPoolThreads);
        if (unit < n) store_vector(tile + unit * kN, loaded[k]);
      }
    }
  };
  if (a.has_vectors)
    load.template operator()<kVector<T>>(a.by_units);
  else
    load.template operator()<1>(a.by_width);
}

/// Joins the taps of a vector of columns from `tap` on, `step` elements apart, to what planes
/// before have left at `to`.
template <class T, Pooled kWhat>
__device__ __forceinline__ void join_column(const T* tap, int32_t step, int32_t taps, bool is_first,
                                            Joined<T, kWhat>* to) {
  constexpr int kN = kVector<T>;
  if constexpr (kWhat == Pooled::max && kIsHalf<T>) {
    auto best = std::bit_cast<Pairs<kN>>(load_vector<kN>(is_first ? tap : to));
#pragma unroll 4
    for (int32_t k = 0; k < taps; ++k) {
      const auto row = std::bit_cast<Pairs<kN>>(load_vector<kN>(tap + k * step));
#pragma unroll
      for (int e = 0; e < kN / 2; ++e) best.word[e] = larger_pair<T>(best.word[e], row.word[e]);
    }
    store_vector(to, std::bit_cast<Vector<T, kN>>(best));
  } else {
    using V = Acc<T>;
    V joined[kN], row[kN];
#pragma unroll
    for (int e = 0; e < kN; ++e)
      joined[e] = !is_first ? to[e] : kWhat == Pooled::max ? max_of_none<T>() : V{0};
#pragma unroll 4
    for (int32_t k = 0; k < taps; ++k) {
      widen(load_vector<kN>(tap + k * step), row);
#pragma unroll
      for (int e = 0; e < kN; ++e)
        joined[e] = kWhat == Pooled::max ? max_of(joined[e], row[e]) : joined[e] + row[e];
    }
    constexpr int kPart = kVector<V>;
#pragma unroll
    for (int e = 0; e < kN; e += kPart) {
      Vector<V, kPart> part;
#pragma unroll
      for (int i = 0; i < kPart; ++i) part.v[i] = joined[e + i];
      store_vector(to + e, part);
    }
  }
}

/// Joins the taps of the columns of the tile's rows of outputs.
template <class T, Pooled kWhat>
__device__ __forceinline__ void join_columns(const PoolShape<int32_t>& s, const SeparableAccess& a,
                                             const SeparablePlace& p, bool is_first, const T* tile,
                                             Joined<T, kWhat>* joined) {
  constexpr int kN = kVector<T>;
  const PoolAxisOf<int32_t>& h = s.axis[1];
  const int32_t width = a.tile.units * kN, n = p.rows * a.tile.units;
  for (int32_t i = int32_t(threadIdx.x); i < n; i += int32_t(kPoolThreads)) {
    uint32_t unit = uint32_t(i);
    const auto row = int32_t(a.by_units.divide(unit));
    const T* const tap = tile + row * h.stride * width + int32_t(unit) * kN;
    join_column<T, kWhat>(tap, h.dilation * width, h.window, is_first, joined + i * kN);
  }
}

/// One output from the joined columns of its row.
template <class T, Pooled kWhat>
__device__ __forceinline__ auto join_row(const PoolAxisOf<int32_t>& w,
                                         const Joined<T, kWhat>* tap) {
  if constexpr (kWhat == Pooled::max && kIsHalf<T>) {
    uint32_t best = tap->bits;
#pragma unroll 4
    for (int32_t k = 1; k < w.window; ++k) best = larger_pair<T>(best, tap[k * w.dilation].bits);
    return half_of<T>(best, 0);
  } else {
    Acc<T> joined = tap[0];
#pragma unroll 4
    for (int32_t k = 1; k < w.window; ++k) {
      const Acc<T> v = tap[k * w.dilation];
      joined = kWhat == Pooled::max ? max_of(joined, v) : joined + v;
    }
    return joined;
  }
}

/// Writes the tile's outputs; neighbouring threads have neighbouring columns.
template <class T, Pooled kWhat>
__device__ __forceinline__ void store_tile(const PoolShape<int32_t>& s, const SeparableAccess& a,
                                           const SeparablePlace& p, const Joined<T, kWhat>* joined,
                                           T* y) {
  const PoolAxisOf<int32_t>& w = s.axis[2];
  const int32_t width = a.tile.units * kVector<T>, n = p.rows * a.tile.columns;
  T* const to = y + p.at.offset(s.y);
  for (int32_t i = int32_t(threadIdx.x); i < n; i += int32_t(kPoolThreads)) {
    uint32_t column = uint32_t(i);
    const auto row = int32_t(a.by_columns.divide(column));
    if (int32_t(column) >= p.columns) continue;
    const auto value =
        join_row<T, kWhat>(w, joined + row * width + p.lead + int32_t(column) * w.stride);
    T* const here = to + row * s.y.space[1] + int32_t(column) * s.y.space[2];
    if constexpr (kWhat == Pooled::max) {
      *here = value;
    } else {
      const auto counted = [&](int axis, int32_t o) {
        return counted_at<int32_t>(s.axis[axis], s.include_padding, o);
      };
      const int32_t planes = s.include_padding ? p.depth.inside : p.depth.real();
      const int64_t rows = int64_t{planes} * counted(1, p.at.space[1] + row);
      *here = store_as<T>(
          average_of(value, Acc<T>(rows) * Acc<T>(counted(2, p.at.space[2] + int32_t(column)))));
    }
  }
}

/// `order` counts tiles.
template <class T, Pooled kWhat>
__global__ void __launch_bounds__(kPoolThreads, 4)
    pool_separable_kernel(PoolShape<int32_t> s, SeparableAccess access, OutputOrder order,
                          uint32_t tiles, const T* x, T* y) {
  constexpr int kN = kVector<T>;
  DYNAMIC_SHARED(tile, T);
  auto* const joined =
      reinterpret_cast<Joined<T, kWhat>*>(tile + access.tile.in_rows * access.tile.units * kN);
  for (uint32_t i = blockIdx.x; i < tiles; i += gridDim.x) {
    const auto p = SeparablePlace::of<kN>(s, access.tile, order.place(i));
    const bool is_real = p.depth.real() > 0;
    const int32_t slice = p.at.space[0] * s.axis[0].stride - s.axis[0].start;
    // Once where no plane is real, for the filler.
    const int32_t last = is_real ? p.depth.last : p.depth.first + 1;
    for (int32_t k = p.depth.first; k < last; ++k) {
      const T* const plane =
          x + p.at.plane(s.x) + (is_real ? slice + k * s.axis[0].dilation : 0) * s.x.space[0];
      load_tile(s, access, p, is_real, plane, separable_filler<T, kWhat>(), tile);
      __syncthreads();
      join_columns<T, kWhat>(s, access, p, k == p.depth.first, tile, joined);
      __syncthreads();
    }
    store_tile<T, kWhat>(s, access, p, joined, y);
  }
}

}  // namespace cudml::cuda
