// Padding in aligned vectors of 16 bytes of the result, whatever the alignment of x.
#pragma once

#include "cuda/pad_rows.cuh"

namespace cudml::cuda {

/// 16 bytes from `shift` bytes after the first of 32.
__device__ inline Bytes16 shifted(const Bytes16& low, const Bytes16& high, uint32_t shift) {
  uint32_t w[8];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    w[i] = low.v[i];
    w[i + 4] = high.v[i];
  }
#pragma unroll
  for (int i = 0; i < 6; ++i) w[i] = shift & 8 ? w[i + 2] : w[i];
#pragma unroll
  for (int i = 0; i < 5; ++i) w[i] = shift & 4 ? w[i + 1] : w[i];
  Bytes16 result;
#pragma unroll
  for (int i = 0; i < 4; ++i)
    result.v[i] = uint32_t((uint64_t(w[i + 1]) << 32 | w[i]) >> (shift & 3) * 8);
  return result;
}

/// 16 bytes from any address; reads aligned ones alone.
__device__ inline Bytes16 load_unaligned(const char* from) {
  const uint32_t shift = uint32_t(reinterpret_cast<uintptr_t>(from) & 15);
  const Bytes16* const aligned = reinterpret_cast<const Bytes16*>(from - shift);
  const Bytes16 low = aligned[0];
  return shift == 0 ? low : shifted(low, aligned[1], shift);
}

/// Writes elements [0, kN) to y, aligned, of which [begin, end) exist; get(e) gives them.
template <class T, class Get>
__device__ __forceinline__ void write_vector(T* y, int32_t begin, int32_t end, Get&& get) {
  constexpr int kN = kVector<T>;
  if (begin > 0 || end < kN) {
#pragma unroll 1
    for (int32_t e = max(begin, 0); e < min(end, kN); ++e) y[e] = get(e);
    return;
  }
  // Few copies of get(), and the vector's words in registers all the same.
  constexpr int kWord = sizeof(T) < 4 ? 4 / int(sizeof(T)) : 1;
  Vector<T, kN> vector;
#pragma unroll 1
  for (int32_t w = 0; w < kN; w += kWord) {
    T word[kWord];
#pragma unroll
    for (int k = 0; k < kWord; ++k) word[k] = get(w + k);
#pragma unroll
    for (int e = 0; e < kN; ++e)
      if (e / kWord == w / kWord) vector.v[e] = word[e % kWord];
  }
  store_vector(y, vector);
}

template <class T>
__device__ inline uint32_t phase_of(const T* y) {
  return uint32_t(reinterpret_cast<uintptr_t>(y) & 15);
}

/// Units of a tile that are copied from inside their rows, or lie in constant rows: four loads on
/// their way at a time.
template <class T>
__device__ __forceinline__ void copy_inner(const PadRows& rows, const PadRow* table, uint32_t first,
                                           uint32_t n, const T* x, T* y, const Bytes16& constant) {
  for (uint32_t begin = threadIdx.x; begin < n; begin += 4 * kPadThreads) {
    Bytes16 vector[4];
    char* to[4];
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      uint32_t unit = begin + uint32_t(k) * kPadThreads;
      to[k] = nullptr;
      if (unit >= n) continue;
      const PadRow row = table[rows.tiles.tile_rows == 1 ? 0 : rows.by_inner.divide(unit)];
      const int32_t at = int32_t((first + unit) * 16 - phase_of(y + row.y));
      to[k] = reinterpret_cast<char*>(y + row.y) + at;
      vector[k] = constant;
      if (row.x >= 0)
        vector[k] = load_unaligned(reinterpret_cast<const char*>(x + row.x) + at -
                                   rows.start * int32_t(sizeof(T)));
    }
#pragma unroll
    for (int k = 0; k < 4; ++k)
      if (to[k]) *reinterpret_cast<Bytes16*>(to[k]) = vector[k];
  }
}

/// What is left of a tile's rows beside `inner` units from `first` on, element by element: few as
/// they are, a thread that had several would keep its block waiting. Four loads are on their way at
/// a time.
template <class T>
__device__ __forceinline__ void copy_border(const PadRows& rows, const PadRow* table,
                                            const int32_t* map, const RowTile& tile, uint32_t first,
                                            uint32_t inner, const T* x, T* y, T value) {
  constexpr uint32_t kN = kVector<T>;
  const uint32_t n = tile.rows * (tile.end - tile.begin - inner) * kN;
  for (uint32_t begin = threadIdx.x; begin < n; begin += 4 * kPadThreads) {
    T element[4];
    T* to[4];
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      const uint32_t number = begin + uint32_t(k) * kPadThreads;
      to[k] = nullptr;
      if (number >= n) continue;
      uint32_t unit = number / kN;
      const PadRow row = table[rows.tiles.tile_rows == 1 ? 0 : rows.by_border.divide(unit)];
      unit += tile.begin;
      if (unit >= first) unit += inner;
      const auto phase = int32_t(phase_of(y + row.y) / sizeof(T));
      const int32_t at = int32_t(unit * kN + number % kN) - phase;
      if (uint32_t(at) >= uint32_t(rows.out)) continue;
      const int32_t i = source_of(rows, map, at);
      element[k] = value;
      if (row.x >= 0 && i >= 0) element[k] = x[row.x + i];
      to[k] = y + row.y + at;
    }
#pragma unroll
    for (int k = 0; k < 4; ++k)
      if (to[k]) *to[k] = element[k];
  }
}

/// Rows of neighbouring elements, long enough to have an inside.
template <class T>
__global__ void __launch_bounds__(kPadThreads)
    pad_row_kernel(PadRows rows, const T* __restrict__ x, T* __restrict__ y, T value,
                   Bytes16 constant) {
  DEVICE_SHARED(map, int32_t[kPadMap]);
  DYNAMIC_SHARED(table, PadRow);
  fill_map(rows, map);
  const auto find = [&](uint32_t row) { return find_row(rows, row); };
  for_tiles(rows.tiles, table, find, [&](const RowTile& tile) {
    const uint32_t first = min(max(rows.inner_first, tile.begin), tile.end);
    const uint32_t last = min(max(rows.inner_last, tile.begin), tile.end);
    copy_inner(rows, table, first, tile.rows * (last - first), x, y, constant);
    copy_border(rows, table, map, tile, first, last - first, x, y, value);
  });
}

/// Short rows of a packed result: a tile's rows are one run of vectors.
template <class T>
__global__ void __launch_bounds__(kPadThreads)
    pad_flat_kernel(PadRows rows, const T* __restrict__ x, T* __restrict__ y, T value) {
  DEVICE_SHARED(map, int32_t[kPadMap]);
  DYNAMIC_SHARED(table, PadRow);
  const int32_t place = int32_t(threadIdx.x);
  if (place < rows.out) map[place] = border_source(rows, place);
  const auto find = [&](uint32_t row) { return find_row(rows, row); };
  for_tiles(rows.tiles, table, find, [&](const RowTile& tile) {
    T* const to = y + int64_t(tile.row) * rows.out;
    const int32_t phase = int32_t(phase_of(to) / sizeof(T)), n = int32_t(tile.rows) * rows.out;
    for (int32_t at = int32_t(threadIdx.x) * kVector<T> - phase; at < n;
         at += kPadThreads * kVector<T>) {
      uint32_t p = uint32_t(max(at, 0));
      uint32_t r = rows.by_units.divide(p);
      int32_t i = int32_t(p);
      write_vector(to + at, -at, n - at, [&](int32_t) {
        const int64_t from = table[r].x;
        const int32_t source = map[i];
        if (++i == rows.out) {
          i = 0;
          ++r;
        }
        return from >= 0 && source >= 0 ? x[from + source * rows.x_stride] : value;
      });
    }
  });
}

}  // namespace cudml::cuda
