// Normalization of columns so short that a block keeps some of them in registers: read once.
#pragma once

#include "cuda/mvn_columns.cuh"

namespace cudml::cuda {

/// Each thread's sums of its columns, line by line of threads, and what is made of them.
template <class T>
struct MvnTileShared {
  float sum[kMvnThreads * kVector<T>], square[kMvnThreads * kVector<T>];
  Raw<Normalizer<float>> normalizer[32 * kVector<T>];  // of each column of the block
};

/// One thread's part of a block's columns: kMvnTileRows rows of kVector columns.
template <class T>
struct MvnColumnTile {
  static constexpr int kN = kVector<T>;

  const MvnArgs<T>& args;
  const MvnColumnShape& shape;
  MvnTileShared<T>& shared;
  MvnColumnPlace<T> place;
  MvnOffsets outer;
  uint32_t width, first;  // columns of the block, and the first of this thread
  Carrier v[kMvnTileRows];

  __device__ __forceinline__ MvnColumnTile(const MvnArgs<T>& args, const MvnColumnShape& shape,
                                           MvnTileShared<T>& shared)
      : args(args),
        shape(shape),
        shared(shared),
        place(shape, blockIdx.x),
        outer(shape.outer.at(place.outer)),
        width(shape.lanes * kN),
        first(threadIdx.x % shape.lanes * kN) {}

  __device__ __forceinline__ uint32_t row(int r) const {
    return place.first_row + uint32_t(r) * place.step;
  }
  __device__ __forceinline__ bool exists(int r) const {
    return place.count > 0 && row(r) < place.end_row;
  }

  __device__ __forceinline__ void read() {
    const T* x = args.x + outer.x;
#pragma unroll
    for (int r = 0; r < kMvnTileRows; ++r)
      if (exists(r)) v[r] = place.load(x + shape.rows.at(row(r)).x, shape);
  }

  /// Sums about the pivots, of squares too where they are wanted, to shared memory.
  __device__ __forceinline__ void add_up(const float (&pivot)[kN], bool squares) {
    float sum[kN] = {}, square[kN] = {};
#pragma unroll
    for (int r = 0; r < kMvnTileRows; ++r) {
      if (!exists(r)) continue;
      float w[kN];
      widen(unpacked<T>(v[r]), w);
#pragma unroll
      for (int e = 0; e < kN; ++e) {
        const float d = w[e] - pivot[e];
        sum[e] += d;
        square[e] += d * d;
      }
    }
    const uint32_t line = threadIdx.x / shape.lanes * width + first;
#pragma unroll
    for (int e = 0; e < kN; ++e) {
      shared.sum[line + e] = sum[e];
      if (squares) shared.square[line + e] = square[e];
    }
  }

  /// The column that this thread joins.
  __device__ __forceinline__ uint32_t own_column() const {
    return place.column - first + threadIdx.x;
  }

  /// The block's total for that column.
  __device__ __forceinline__ double total(const float* sums) const {
    double sum = 0;
    for (uint32_t s = 0; s < place.step; ++s) sum += sums[s * width + threadIdx.x];
    return sum;
  }

  /// One thread for each column joins what all have found in it.
  __device__ __forceinline__ void make_normalizers() {
    float pivot[kN] = {}, mine = 0;
    if (args.use_mean) {
      add_up(pivot, false);
      __syncthreads();
      if (threadIdx.x < width) {
        mine = args.pivot(pivot_of<float>(total(shared.sum), shape.row_count), shape.row_count,
                          outer.x + own_column() * shape.x);
        shared.normalizer[threadIdx.x].value().pivot = mine;
      }
      __syncthreads();
#pragma unroll
      for (int e = 0; e < kN; ++e) pivot[e] = shared.normalizer[first + e].value().pivot;
    }
    add_up(pivot, true);
    __syncthreads();
    if (threadIdx.x < width) {
      const uint32_t column = own_column();
      shared.normalizer[threadIdx.x].value() = args.normalizer(
          args.moments(shape.row_count, mine, total(shared.sum), total(shared.square)),
          int64_t(place.outer) * shape.columns + column, column < shape.columns);
    }
    __syncthreads();
  }

  template <bool kActivates>
  __device__ __forceinline__ void write() const {
    MvnColumnOperands<T> operands;
    if (args.has_statistics()) {
#pragma unroll
      for (int e = 0; e < kN; ++e) operands.normalizer[e] = shared.normalizer[first + e].value();
    }
    if (shape.is_constant) operands.fetch(args, shape, place, outer, {});
#pragma unroll
    for (int r = 0; r < kMvnTileRows; ++r)
      if (exists(r))
        operands.template write<kActivates>(args, shape, place, outer, shape.rows.at(row(r)), v[r]);
  }
};

template <class T, bool kActivates>
__global__ __launch_bounds__(kMvnThreads) void mvn_column_tile_kernel(const MvnArgs<T> args,
                                                                      const MvnColumnShape shape) {
  DEVICE_SHARED(shared, MvnTileShared<T>);
  MvnColumnTile<T> tile(args, shape, shared);
  tile.read();
  if (args.has_statistics()) tile.make_normalizers();
  tile.template write<kActivates>();
}

}  // namespace cudml::cuda
