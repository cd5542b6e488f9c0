// Gradients row by row with 32-bit offsets and dense windows: the windows that cover a row are
// found once; each thread then gathers a vector of columns, or of neighbouring planes.
#pragma once

#include "cuda/convert.cuh"
#include "cuda/pool_grad_kernels.h"
#include "cuda/row_tiles.cuh"
#include "cuda/vector.cuh"

namespace cudml::cuda {

/// Outputs whose windows reach into [low, high] of an axis: [first, last].
struct GradSpan {
  int32_t first, last;
};

__device__ inline GradSpan span_of(const GradAxis& a, int32_t low, int32_t high) {
  const int32_t behind = low + a.start - (a.window - 1);
  const int32_t first = behind <= 0 ? 0 : int32_t(a.by_stride.quotient(uint32_t(behind - 1))) + 1;
  return {first, min(a.out - 1, int32_t(a.by_stride.quotient(uint32_t(high + a.start))))};
}

__device__ inline GradRow find_row(const GradRows& rows, uint32_t number) {
  uint32_t h = number;
  uint32_t d = rows.axis[1].by_in.divide(h);
  uint32_t plane = rows.axis[0].by_in.divide(d);
  const int32_t batch = int32_t(rows.by_planes.divide(plane));
  const auto offset = [&](const GradStrides& s, int32_t slice, int32_t row) {
    return batch * s.batch[0] + int32_t(plane) * s.batch[1] + slice * s.space[0] + row * s.space[1];
  };
  const GradSpan slices = span_of(rows.axis[0], int32_t(d), int32_t(d));
  const GradSpan lines = span_of(rows.axis[1], int32_t(h), int32_t(h));
  GradRow r;
  r.result = offset(rows.result, int32_t(d), int32_t(h));
  r.grad = offset(rows.grad, slices.first, lines.first);
  r.winners = offset(rows.winners, slices.first, lines.first);
  r.slice = slices.first;
  r.slices = slices.last - slices.first + 1;
  r.row = lines.first;
  r.rows = lines.last - lines.first + 1;
  r.own = int32_t((d * uint32_t(rows.axis[1].in) + h) * uint32_t(rows.axis[2].in));
  r.is_full = slices.first >= rows.axis[0].full_first && slices.last <= rows.axis[0].full_last &&
              lines.first >= rows.axis[1].full_first && lines.last <= rows.axis[1].full_last;
  return r;
}

/// Calls fn(offset of the window's row in grad, in winners, its slice, its row) for the windows of
/// one column that cover a row.
template <class Fn>
__device__ __forceinline__ void for_lines(const GradRows& rows, const GradRow& row, Fn&& fn) {
  for (int32_t a = 0; a < row.slices; ++a)
    for (int32_t b = 0; b < row.rows; ++b)
      fn(row.grad + a * rows.grad.space[0] + b * rows.grad.space[1],
         row.winners + a * rows.winners.space[0] + b * rows.winners.space[1], row.slice + a,
         row.row + b);
}

__device__ inline bool is_full_column(const GradRows& rows, int32_t o) {
  return o >= rows.axis[2].full_first && o <= rows.axis[2].full_last;
}

/// What a window counts, by the rule that serves all kernels.
template <class Shape>
__device__ __forceinline__ float divisor_of(const Shape& s, int32_t slice, int32_t row,
                                            int32_t column) {
  return float(counted_at<int32_t>(s.axis[0], s.include_padding, slice) *
               counted_at<int32_t>(s.axis[1], s.include_padding, row) *
               counted_at<int32_t>(s.axis[2], s.include_padding, column));
}

/// Writes the elements [begin, end) of a vector at `to`, aligned.
template <class T, int kN>
__device__ __forceinline__ void store_columns(T* to, int32_t begin, int32_t end,
                                              const float (&sums)[kN]) {
  Vector<T, kN> vector;
#pragma unroll
  for (int v = 0; v < kN; ++v) vector.v[v] = store_as<T>(sums[v]);
  if (begin <= 0 && end >= kN) return store_vector(to, vector);
#pragma unroll
  for (int v = 0; v < kN; ++v)
    if (v >= begin && v < end) to[v] = vector.v[v];
}

/// A thread's columns of a row: aligned in the result, the first and last vector cut short.
struct GradColumns {
  GradRow row;
  int32_t at;  // column of the vector's first element, negative in the first vector
  GradSpan windows;
};

template <int kN, class T>
__device__ __forceinline__ GradColumns columns_of(const GradRows& rows, const GradRow* table,
                                                  const RowTile& tile, uint32_t n,
                                                  const T* result) {
  GradColumns c;
  c.row = table[rows.tiles.tile_rows == 1 ? 0 : rows.by_units.divide(n)];
  const uintptr_t address = reinterpret_cast<uintptr_t>(result + c.row.result);
  const int32_t phase = int32_t(address % kGradVectorBytes / sizeof(T));
  c.at = int32_t(tile.begin + n) * kN - phase;
  const int32_t columns = rows.axis[2].in;
  c.windows = {0, -1};
  if (c.at < columns) c.windows = span_of(rows.axis[2], max(c.at, 0), min(c.at + kN, columns) - 1);
  return c;
}

/// Writes a thread's columns of a row of `columns`.
template <class T, int kN>
__device__ __forceinline__ void store_row_columns(const GradColumns& c, int32_t columns, T* result,
                                                  const float (&sums)[kN]) {
  T* const to = result + c.row.result + c.at;
  if (c.at >= 0 && c.at + kN <= columns) return store_whole(to, narrow<T, kN>(sums));
  store_columns(to, -c.at, columns - c.at, sums);
}

template <class T>
__global__ void __launch_bounds__(kPoolGradThreads, kPoolGradBlocks)
    average_pool_grad_row_kernel(GradRows rows, const T* __restrict__ grad,
                                 T* __restrict__ result) {
  constexpr int kN = kVector<T>;
  DYNAMIC_SHARED(table, GradRow);
  const GradAxis& w = rows.axis[2];
  const auto find = [&](uint32_t number) { return find_row(rows, number); };
  for_tiles(rows.tiles, table, find, [&](const RowTile& tile) {
    for (uint32_t n = threadIdx.x; n < tile.units(); n += kPoolGradThreads) {
      const GradColumns c = columns_of<kN>(rows, table, tile, n, result);
      float sums[kN] = {};
      for (int32_t o = c.windows.first; o <= c.windows.last; ++o) {
        const T* const from = grad + o * rows.grad.space[2];
        const bool is_full = is_full_column(rows, o);
        // Where all windows above count the same, one division serves them. Their gradients are
        // scaled before they are added: a sum of quotients overflows only where the result does.
        const float columns = float(counted_at<int32_t>(w, rows.include_padding, o));
        const float scale = is_full ? rows.inverse : 1 / (float(rows.full_rows) * columns);
        float sum = 0;
        for_lines(rows, c.row, [&](int32_t line, int32_t, int32_t slice, int32_t row) {
          const float g = load_as_acc(from[line]);
          sum += c.row.is_full ? g * scale : g / divisor_of(rows, slice, row, o);
        });
        const int32_t begin = o * w.stride - w.start - c.at;
#pragma unroll
        for (int v = 0; v < kN; ++v)
          if (uint32_t(v - begin) < uint32_t(w.window)) sums[v] += sum;
      }
      store_row_columns(c, w.in, result, sums);
    }
  });
}

template <class T>
__global__ void __launch_bounds__(kPoolGradThreads)
    max_pool_grad_row_kernel(GradRows rows, const T* __restrict__ grad,
                             const uint32_t* __restrict__ winners, T* __restrict__ result) {
  constexpr int kN = kVector<T>;
  DYNAMIC_SHARED(table, GradRow);
  const auto find = [&](uint32_t number) { return find_row(rows, number); };
  for_tiles(rows.tiles, table, find, [&](const RowTile& tile) {
    for (uint32_t n = threadIdx.x; n < tile.units(); n += kPoolGradThreads) {
      const GradColumns c = columns_of<kN>(rows, table, tile, n, result);
      const uint32_t own = uint32_t(c.row.own + c.at);
      float sums[kN] = {};
      for_lines(rows, c.row, [&](int32_t line, int32_t won, int32_t, int32_t) {
        for (int32_t o = c.windows.first; o <= c.windows.last; ++o) {
          const uint32_t place = winners[won + o * rows.winners.space[2]] - own;
          const float g = load_as_acc(grad[line + o * rows.grad.space[2]]);
#pragma unroll
          for (int v = 0; v < kN; ++v)
            if (place == uint32_t(v)) sums[v] += g;
        }
      });
      store_row_columns(c, rows.axis[2].in, result, sums);
    }
  });
}

/// One column of some planes: offsets of its first plane, and the windows over it.
struct GradPlanes {
  GradRow row;
  int32_t column, plane;  // first of the planes, 0 where rows know theirs
  GradSpan windows;
};

template <int kN>
__device__ __forceinline__ GradPlanes planes_of(const GradRows& rows, const GradRow* table,
                                                const RowTile& tile, uint32_t n) {
  GradPlanes p;
  p.row = table[rows.tiles.tile_rows == 1 ? 0 : rows.by_units.divide(n)];
  uint32_t lane = tile.begin + n;
  p.column = int32_t(rows.by_lanes.divide(lane));
  p.plane = int32_t(lane) * kN;
  p.windows = span_of(rows.axis[2], p.column, p.column);
  return p;
}

template <class T, int kN>
__device__ __forceinline__ void gather_averages(const GradRows& rows, const T* __restrict__ grad,
                                                T* __restrict__ result) {
  DYNAMIC_SHARED(table, GradRow);
  const auto find = [&](uint32_t number) { return find_row(rows, number); };
  for_tiles(rows.tiles, table, find, [&](const RowTile& tile) {
    for (uint32_t n = threadIdx.x; n < tile.units(); n += kPoolGradThreads) {
      const GradPlanes p = planes_of<kN>(rows, table, tile, n);
      const T* const from = grad + p.plane * rows.grad.batch[1];
      float sums[kN] = {};
      for_lines(rows, p.row, [&](int32_t line, int32_t, int32_t slice, int32_t row) {
        for (int32_t o = p.windows.first; o <= p.windows.last; ++o) {
          const bool is_full = p.row.is_full && is_full_column(rows, o);
          const float scale = is_full ? rows.inverse : 1 / divisor_of(rows, slice, row, o);
          const Vector<T, kN> g = load_vector<kN>(from + line + o * rows.grad.space[2]);
#pragma unroll
          for (int v = 0; v < kN; ++v) sums[v] += load_as_acc(g.v[v]) * scale;
        }
      });
      const int32_t to = p.plane * rows.result.batch[1] + p.column * rows.result.space[2];
      store_columns(result + p.row.result + to, 0, kN, sums);
    }
  });
}

/// `has_vectors`: a vector of planes at a time, else one.
template <class T>
__global__ void __launch_bounds__(kPoolGradThreads, kPoolGradBlocks)
    average_pool_grad_lanes_kernel(GradRows rows, bool has_vectors, const T* __restrict__ grad,
                                   T* __restrict__ result) {
  if (has_vectors)
    gather_averages<T, kVector<T>>(rows, grad, result);
  else
    gather_averages<T, 1>(rows, grad, result);
}

template <class T, int kN>
__device__ __forceinline__ void gather_maxima(const GradRows& rows, const T* __restrict__ grad,
                                              const uint32_t* __restrict__ winners,
                                              T* __restrict__ result) {
  constexpr int kPart = kN < 4 ? kN : 4;  // winners in a vector
  DYNAMIC_SHARED(table, GradRow);
  const auto find = [&](uint32_t number) { return find_row(rows, number); };
  for_tiles(rows.tiles, table, find, [&](const RowTile& tile) {
    for (uint32_t n = threadIdx.x; n < tile.units(); n += kPoolGradThreads) {
      const GradPlanes p = planes_of<kN>(rows, table, tile, n);
      const T* const from = grad + p.plane * rows.grad.batch[1];
      const uint32_t* const won = winners + p.plane * rows.winners.batch[1];
      const uint32_t own = uint32_t(p.row.own + p.column);
      float sums[kN] = {};
      for_lines(rows, p.row, [&](int32_t line, int32_t winner_line, int32_t, int32_t) {
        for (int32_t o = p.windows.first; o <= p.windows.last; ++o) {
          const Vector<T, kN> g = load_vector<kN>(from + line + o * rows.grad.space[2]);
          const uint32_t* const here = won + winner_line + o * rows.winners.space[2];
#pragma unroll
          for (int part = 0; part < kN; part += kPart) {
            const Vector<uint32_t, kPart> winner = load_vector<kPart>(here + part);
#pragma unroll
            for (int v = 0; v < kPart; ++v)
              if (winner.v[v] == own) sums[part + v] += load_as_acc(g.v[part + v]);
          }
        }
      });
      const int32_t to = p.plane * rows.result.batch[1] + p.column * rows.result.space[2];
      store_columns(result + p.row.result + to, 0, kN, sums);
    }
  });
}

template <class T>
__global__ void __launch_bounds__(kPoolGradThreads, kPoolGradBlocks)
    max_pool_grad_lanes_kernel(GradRows rows, bool has_vectors, const T* __restrict__ grad,
                               const uint32_t* __restrict__ winners, T* __restrict__ result) {
  if (has_vectors)
    gather_maxima<T, kVector<T>>(rows, grad, winners, result);
  else
    gather_maxima<T, 1>(rows, grad, winners, result);
}

}  // namespace cudml::cuda
