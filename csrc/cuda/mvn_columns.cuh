// Normalization where a kept dimension is the fastest: neighbours in memory belong to other groups,
// and a thread follows some columns down the rows.
#pragma once

#include "cuda/grid.cuh"
#include "cuda/mvn_args.cuh"

namespace cudml::cuda {

/// Statistics of one column over the rows of one part; how many rows follows from its place.
struct MvnColumnMoments {
  float pivot, delta, m2;
};
static_assert(sizeof(MvnColumnMoments) == kMvnColumnMomentsBytes);

struct MvnColumnShape {
  MvnWalk rows, outer;        // row and outer position to offsets
  int64_t x, y, scale, bias;  // strides along the columns
  FastDiv tiles, parts, fold;
  uint32_t columns, row_count, part_rows;
  uint32_t lanes;  // threads along the columns
  bool is_x_packed, is_y_packed;
  bool is_constant;  // scale and bias do not change from row to row

  MvnColumnShape(const MvnPlan& plan, const MvnColumns& c, const MvnPointers& p)
      : rows(plan.reduced, c.reduced_rank),
        outer(plan.kept, c.outer_rank),
        x(c.axis.x),
        y(c.axis.y),
        scale(c.axis.scale),
        bias(c.axis.bias),
        tiles(uint32_t(c.tiles)),
        parts(uint32_t(c.parts)),
        fold(uint32_t(c.fold)),
        columns(uint32_t(c.axis.size)),
        row_count(uint32_t(c.rows)),
        part_rows(uint32_t(c.part_rows)),
        lanes(uint32_t(c.lanes)),
        is_x_packed(is_packed(plan, c, &MvnAxis::x, p.x)),
        is_y_packed(is_packed(plan, c, &MvnAxis::y, p.y)),
        is_constant(true) {
    for (int d = 0; d < c.reduced_rank; ++d)
      is_constant &= plan.reduced[d].scale == 0 && plan.reduced[d].bias == 0;
  }

  /// Whether a thread's columns are one aligned vector in every row.
  static bool is_packed(const MvnPlan& plan, const MvnColumns& c, int64_t MvnAxis::* stride,
                        const void* data) {
    const int64_t vector = mvn_vector(plan.dtype);
    bool packed = c.axis.*stride == 1 && c.axis.size % vector == 0 &&
                  reinterpret_cast<uintptr_t>(data) % kMvnAccess == 0;
    for (int d = 0; d < c.reduced_rank; ++d) packed &= plan.reduced[d].*stride % vector == 0;
    for (int d = 0; d < c.outer_rank; ++d) packed &= plan.kept[d].*stride % vector == 0;
    return packed;
  }
};

/// Up to `count` elements, `stride` apart. Not inlined: it would be copied for each row.
template <class T>
__device__ __noinline__ Carrier columns_apart(const T* x, int64_t stride, int count) {
  Vector<T, kVector<T>> values = {};
#pragma unroll
  for (int e = 0; e < kVector<T>; ++e)
    if (e < count) values.v[e] = x[e * stride];
  return std::bit_cast<Carrier>(values);
}

/// A thread's place: kVector columns, which are neighbours, and every `step`-th row of one part.
template <class T>
struct MvnColumnPlace {
  static constexpr int kN = kVector<T>;

  uint32_t outer, part, column, first_row, step, end_row;
  int count;  // columns that exist

  __device__ __forceinline__ MvnColumnPlace(const MvnColumnShape& shape, uint32_t block) {
    const uint32_t rest = shape.tiles.quotient(block);
    const uint32_t tile = block - rest * shape.tiles.divisor;
    outer = shape.parts.quotient(rest);
    part = rest - outer * shape.parts.divisor;
    column = (tile * shape.lanes + threadIdx.x % shape.lanes) * kN;
    count = column < shape.columns ? int(min(shape.columns - column, uint32_t(kN))) : 0;
    step = blockDim.x / shape.lanes;
    first_row = part * shape.part_rows + threadIdx.x / shape.lanes;
    end_row = min((part + 1) * shape.part_rows, shape.row_count);
  }

  /// The columns of a row whose first one of all stands at x.
  __device__ __forceinline__ Carrier load(const T* x, const MvnColumnShape& shape) const {
    x += column * shape.x;
    return shape.is_x_packed ? *reinterpret_cast<const Carrier*>(x)
                             : columns_apart(x, shape.x, count);
  }
};

/// Sums of some rows of a thread's columns, about pivots that the block's threads share.
template <int kN>
struct MvnColumnSums {
  float sum[kN] = {}, square[kN] = {};

  template <class T, int kRows>
  __device__ __forceinline__ void add(const Carrier (&v)[kRows], int count,
                                      const float (&pivot)[kN]) {
    float part[kN] = {}, part_square[kN] = {};
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      if (r >= count) break;
      float w[kN];
      widen(unpacked<T>(v[r]), w);
#pragma unroll
      for (int e = 0; e < kN; ++e) {
        const float d = w[e] - pivot[e];
        part[e] += d;
        part_square[e] += d * d;
      }
    }
#pragma unroll
    for (int e = 0; e < kN; ++e) {
      sum[e] += part[e];
      square[e] += part_square[e];
    }
  }
};

/// Each thread's sums, line by line of threads, and the pivots of the block's columns.
template <class T>
struct MvnColumnShared {
  float sum[kMvnThreads * kVector<T>], square[kMvnThreads * kVector<T>];
  float pivot[kMvnThreads * kVector<T>];

  /// The block's total of one column, `width` apart from line to line.
  __device__ __forceinline__ static double total(const float* sums, uint32_t column, uint32_t width,
                                                 uint32_t lines) {
    double sum = 0;
    for (uint32_t line = 0; line < lines; ++line) sum += sums[line * width + column];
    return sum;
  }
};

/// Statistics of the columns of one block over the rows of one part. Their own rounding does not
/// matter to pivots: they are the means of the first rows that the first line of threads reads.
template <class T>
struct MvnColumnPart {
  static constexpr int kN = kVector<T>, kRows = 8;

  const MvnArgs<T>& args;
  const MvnColumnShape& shape;
  MvnColumnShared<T>& shared;
  const MvnColumnPlace<T> place;
  const T* x;
  uint32_t width, first, line;  // columns of the block; this thread's first one, its line

  __device__ __forceinline__ MvnColumnPart(const MvnArgs<T>& args, const MvnColumnShape& shape,
                                           MvnColumnShared<T>& shared)
      : args(args),
        shape(shape),
        shared(shared),
        place(shape, blockIdx.x),
        x(args.x + shape.outer.at(place.outer).x),
        width(shape.lanes * kN),
        first(threadIdx.x % shape.lanes * kN),
        line(threadIdx.x / shape.lanes) {}

  /// Rows of the thread from `row` on, and how many there are.
  __device__ __forceinline__ int read(uint32_t row, Carrier (&v)[kRows]) const {
    int count = 0;
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      if (place.count == 0 || row + r * place.step >= place.end_row) break;
      v[r] = place.load(x + shape.rows.at(row + r * place.step).x, shape);
      ++count;
    }
    return count;
  }

  __device__ __forceinline__ void share_pivots(const Carrier (&v)[kRows], int count) {
    if (line == 0) {
      float mean[kN] = {};
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
        if (r >= count) break;
        float w[kN];
        widen(unpacked<T>(v[r]), w);
#pragma unroll
        for (int e = 0; e < kN; ++e) mean[e] += w[e];
      }
#pragma unroll
      for (int e = 0; e < kN; ++e) {
        mean[e] /= float(count);
        const float pivot =
            pivot_near(mean[e], count, [&] { return load_as_acc(unpacked<T>(v[0]).v[e]); });
        shared.pivot[first + e] = is_finite(pivot) ? pivot : 0;
      }
    }
    __syncthreads();
  }

  __device__ __forceinline__ void add_up() {
    Carrier v[kRows];
    uint32_t row = place.first_row;
    int count = read(row, v);
    float pivot[kN] = {};
    if (args.use_mean) {
      share_pivots(v, count);
#pragma unroll
      for (int e = 0; e < kN; ++e) pivot[e] = shared.pivot[first + e];
    }
    MvnColumnSums<kN> sums;
    while (count > 0) {
      sums.template add<T>(v, count, pivot);
      row += kRows * place.step;
      count = read(row, v);
    }
#pragma unroll
    for (int e = 0; e < kN; ++e) {
      shared.sum[line * width + first + e] = sums.sum[e];
      shared.square[line * width + first + e] = sums.square[e];
    }
    __syncthreads();
  }

  /// One thread for each column of the block.
  __device__ __forceinline__ void write(MvnColumnMoments* moments) const {
    const uint32_t from = place.column - first;
    const uint32_t part = place.outer * shape.parts.divisor + place.part;
    const double n = place.end_row - place.part * shape.part_rows;
    for (uint32_t c = threadIdx.x; c < width && from + c < shape.columns; c += kMvnThreads) {
      const double sum = shared.total(shared.sum, c, width, place.step);
      const double square = shared.total(shared.square, c, width, place.step);
      Moments<float> m = args.moments(n, args.use_mean ? shared.pivot[c] : 0, sum, square);
      // Infinities add up as in the plain sum, and nothing has a distance from them.
      if (args.use_mean && !is_finite(sum)) m = {n, float(sum), 0, sum - sum};
      moments[int64_t(part) * shape.columns + from + c] = {m.pivot, float(m.delta), float(m.m2)};
    }
  }
};

template <class T>
__global__ __launch_bounds__(kMvnThreads) void mvn_column_moments_kernel(
    const MvnArgs<T> args, const MvnColumnShape shape, MvnColumnMoments* moments) {
  DEVICE_SHARED(shared, MvnColumnShared<T>);
  MvnColumnPart<T> part(args, shape, shared);
  part.add_up();
  part.write(moments);
}

/// Joins the parts of a group's columns: `lanes` neighbouring lanes for each group.
__global__ __launch_bounds__(kMvnThreads) void mvn_column_join_kernel(
    const MvnColumnShape shape, const MvnColumnMoments* moments, uint32_t lanes, uint32_t groups,
    bool use_variance, double epsilon, Normalizer<float>* normalizers, Moments<float>* statistics) {
  // Fewer than 2^31 join; the last block has some more.
  const auto thread = uint32_t(thread_in_grid());
  const uint32_t g = thread / lanes, lane = thread % lanes;
  const uint32_t groups_abreast = shape.columns / shape.fold.divisor;
  Moments<float> joined;
  if (g < groups) {
    const uint32_t outer = g / groups_abreast, fold = shape.fold.divisor;
    const uint32_t column = (g - outer * groups_abreast) * fold;
    const uint32_t parts = shape.parts.divisor;
    for (uint32_t i = lane; i < parts * fold; i += lanes) {
      const uint32_t part = shape.fold.quotient(i);
      const uint32_t rows = min(shape.part_rows, shape.row_count - part * shape.part_rows);
      const MvnColumnMoments m =
          moments[int64_t(outer * parts + part) * shape.columns + column + (i - part * fold)];
      const Moments<float> one = {double(rows), m.pivot, m.delta, m.m2};
      joined = MergeMoments{}(joined, one);
    }
  }
  for (int distance = int(lanes) / 2; distance > 0; distance /= 2)
    joined = MergeMoments{}(joined, moments_of_lane_above(joined, distance));
  if (lane != 0 || g >= groups) return;
  normalizers[g] = normalizer_of(joined, use_variance, epsilon);
  if (statistics) statistics[g] = joined;
}

/// Up to `count` of a thread's scales or biases. Not inlined: where they differ from row to row, it
/// would be copied for each row.
template <class T, class A = Acc<T>>
__device__ __noinline__ Values<A, kVector<A>> load_columns(Parameter<T> p, int64_t from,
                                                           int64_t stride, int count) {
  Values<A, kVector<A>> values = {};
#pragma unroll
  for (int e = 0; e < kVector<A>; ++e)
    if (e < count) values.v[e] = p.at(from + e * stride);
  return values;
}

/// What a thread's columns are normalized with.
template <class T>
struct MvnColumnOperands {
  static constexpr int kN = kVector<T>;

  Normalizer<float> normalizer[kN];
  float scale[kN], bias[kN];

  __device__ __forceinline__ void fetch(const MvnArgs<T>& args, const MvnColumnShape& shape,
                                        const MvnColumnPlace<T>& place, const MvnOffsets& outer,
                                        const MvnOffsets& row) {
    fetch(args.scale, outer.scale + row.scale, shape.scale, place, scale);
    fetch(args.bias, outer.bias + row.bias, shape.bias, place, bias);
  }
  __device__ __forceinline__ static void fetch(const Parameter<T>& p, int64_t from, int64_t stride,
                                               const MvnColumnPlace<T>& place, float (&out)[kN]) {
    from += place.column * stride;
    cuda::fetch(p, access_of(false, stride, true), from, out, [&](float (&values)[kN]) {
#pragma unroll
      for (int e = 0; e < kN; e += kVector<float>) {
        const auto some = load_columns(p, from + e * stride, stride, place.count - e);
#pragma unroll
        for (int j = 0; j < kVector<float>; ++j) values[e + j] = some.v[j];
      }
    });
  }

  /// One row of them; `row` is where it stands, x what was read there.
  template <bool kActivates>
  __device__ __forceinline__ void write(const MvnArgs<T>& args, const MvnColumnShape& shape,
                                        const MvnColumnPlace<T>& place, const MvnOffsets& outer,
                                        const MvnOffsets& row, const Carrier& x) {
    if (!shape.is_constant) fetch(args, shape, place, outer, row);
    float v[kN];
    widen(unpacked<T>(x), v);
#pragma unroll
    for (int e = 0; e < kN; ++e) v[e] = fused(normalizer[e](v[e]), scale[e], bias[e]);
    if constexpr (kActivates) args.activate(v);
    const Vector<T, kN> result = narrow<T>(v);
    T* y = args.y + outer.y + row.y + place.column * shape.y;
    if (shape.is_y_packed) return store_vector<kN>(y, result);
#pragma unroll
    for (int e = 0; e < kN; ++e)
      if (e < place.count) y[e * shape.y] = result.v[e];
  }
};

/// Looks at the activation in any case: as many registers, and a branch for each row is nothing.
template <class T>
__global__ __launch_bounds__(kMvnThreads) void mvn_column_apply_kernel(
    const MvnArgs<T> args, const MvnColumnShape shape, const Normalizer<float>* normalizers) {
  constexpr int kN = kVector<T>;
  // From the end: what the statistics read last is still in the cache.
  const MvnColumnPlace<T> place(shape, gridDim.x - 1 - blockIdx.x);
  if (place.count == 0) return;
  const MvnOffsets outer = shape.outer.at(place.outer);
  const int64_t first_group = int64_t(place.outer) * (shape.columns / shape.fold.divisor);
  MvnColumnOperands<T> operands;
  if (args.has_statistics()) {
#pragma unroll
    for (int e = 0; e < kN; ++e)
      if (e < place.count)
        operands.normalizer[e] =
            normalizers[first_group + shape.fold.quotient(place.column + uint32_t(e))];
  }
  if (shape.is_constant) operands.fetch(args, shape, place, outer, {});
#pragma unroll 2
  for (uint32_t row = place.first_row; row < place.end_row; row += place.step) {
    const MvnOffsets at = shape.rows.at(row);
    const auto x = place.load(args.x + outer.x + at.x, shape);
    operands.template write<true>(args, shape, place, outer, at, x);
  }
}

}  // namespace cudml::cuda
