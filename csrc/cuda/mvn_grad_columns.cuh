// The gradients of normalization where neighbours in memory belong to other cells, or to short runs
// of one: threads follow some columns down the rows.
#pragma once

#include "cuda/mvn_grad_parts.cuh"

namespace cudml::cuda {

template <class T>
inline constexpr int kColumnRows = sizeof(T) == 2 ? kMvnGradColumnRows : kMvnGradColumnRows / 2;

/// How the columns lie. Which rows a thread adds up depends on how many there are alone.
struct MvnGradColumnShape {
  MvnGradWalk outer, rows, columns;
  MvnGradSplit tiles, row_parts, fold;  // neighbours of one run, or all columns
  int64_t units;                        // blocks' work
  uint32_t row_count, part_rows;
  bool is_x_packed, is_grad_packed, is_dx_packed;  // a thread's columns are one aligned vector

  MvnGradColumnShape(const MvnGradPlan& plan, const MvnGradColumns& c, const Operands& o)
      : tiles(c.tiles),
        row_parts(c.row_parts),
        fold(c.column_rank == 2 ? c.column[1].size : INT32_MAX),
        units(c.outer * c.row_parts * c.tiles),
        row_count(uint32_t(c.rows)),
        part_rows(uint32_t(c.part_rows)),
        is_x_packed(is_packed(plan, c, &MvnGradAxis::x, o.inputs[0])),
        is_grad_packed(is_packed(plan, c, &MvnGradAxis::grad, o.inputs[1])),
        is_dx_packed(is_packed(plan, c, &MvnGradAxis::dx, o.outputs[0])) {
    const MvnGradCellStrides cells(plan);
    for (int d = 0; d < c.outer_rank; ++d)
      outer.add(plan.kept[d].size, step_of(plan.kept[d], cells.kept[d]));
    for (int d = 0; d < c.row_rank; ++d)
      rows.add(plan.reduced[d].size, step_of(plan.reduced[d], 0));
    for (int d = 0; d < c.column_rank; ++d)
      columns.add(c.column[d].size, step_of(c.column[d], c.cells[d]));
  }

 private:
  static bool is_packed(const MvnGradPlan& plan, const MvnGradColumns& c,
                        int64_t MvnGradAxis::* stride, const void* data) {
    const int64_t vector = kMvnGradColumns * int64_t(size_of(plan.dtype));
    bool is_packed =
        c.columns % kMvnGradColumns == 0 && reinterpret_cast<uintptr_t>(data) % vector == 0;
    int64_t step = 1;
    for (int d = c.column_rank - 1; d >= 0; step *= c.column[d--].size)
      is_packed &= c.column[d].*stride == step;
    for (int d = 0; d < c.row_rank; ++d)
      is_packed &= plan.reduced[d].*stride % kMvnGradColumns == 0;
    for (int d = 0; d < c.outer_rank; ++d) is_packed &= plan.kept[d].*stride % kMvnGradColumns == 0;
    return is_packed;
  }
};

/// The way from a column to the next: to the next run after the last of `size`.
struct MvnGradColumnSteps {
  int64_t inner, wrap;
  uint32_t at, size;
};

/// Columns that do not stand as a vector. Not inlined: it would be copied for each row.
template <class T>
__device__ __noinline__ Vector<T, kMvnGradColumns> load_apart(const T* from,
                                                              MvnGradColumnSteps steps, int count) {
  Vector<T, kMvnGradColumns> values = {};
#pragma unroll
  for (int e = 0; e < kMvnGradColumns; ++e) {
    if (e >= count) break;
    values.v[e] = *from;
    from += ++steps.at == steps.size ? steps.wrap : steps.inner;
    if (steps.at == steps.size) steps.at = 0;
  }
  return values;
}

/// A thread's place: some columns, which are neighbours, and every kSteps-th row of one part.
template <class T>
struct MvnGradColumn {
  static constexpr int kN = kMvnGradColumns, kRows = kColumnRows<T>;
  static constexpr uint32_t kSteps = kMvnGradPartThreads / kMvnGradColumnLanes;
  using Packed = CarrierOf<kN* int(sizeof(T))>;

  const MvnGradArgs<T>& args;
  const MvnGradColumnShape& shape;
  MvnGradPlace origin, first;  // of the outer position; of the thread's first column
  int64_t part, column;        // the part's number for column 0; the first column
  uint32_t begin, end;         // rows
  uint32_t fold_at;            // of the first column in its run
  int count;                   // columns that exist

  __device__ __forceinline__ MvnGradColumn(const MvnGradArgs<T>& args,
                                           const MvnGradColumnShape& shape, int64_t unit)
      : args(args), shape(shape) {
    const int64_t rest = shape.tiles.quotient(unit), tile = unit - rest * shape.tiles.divisor;
    const int64_t place = shape.row_parts.quotient(rest);
    const auto row_part = uint32_t(rest - place * shape.row_parts.divisor);
    origin = shape.outer.at(place);
    part = rest * shape.columns.count;
    column = (tile * kMvnGradColumnLanes + threadIdx.x % kMvnGradColumnLanes) * kN;
    const int64_t left = shape.columns.count - column;
    count = int(left < 0 ? 0 : left < kN ? left : kN);
    if (count > 0) first = shape.columns.at(column);
    fold_at = uint32_t(column - shape.fold.quotient(column) * shape.fold.divisor);
    begin = row_part * shape.part_rows + threadIdx.x / kMvnGradColumnLanes;
    end = min((row_part + 1) * shape.part_rows, shape.row_count);
    if (count == 0) end = 0;
  }

  /// The place of column e.
  __device__ __forceinline__ MvnGradPlace at(int e) const {
    MvnGradPlace place = shape.columns.at(column + e);
    place.add(origin, 1);
    return place;
  }

  __device__ __forceinline__ Packed load(const T* from, bool is_packed,
                                         int64_t MvnGradPlace::* member,
                                         const MvnGradPlace& row) const {
    from += origin.*member + first.*member + row.*member;
    if (is_packed) return *reinterpret_cast<const Packed*>(from);
    const int last = shape.columns.rank - 1;
    const int64_t inner = last >= 0 ? shape.columns.step[last].*member : 0;
    const auto size = uint32_t(shape.fold.divisor);
    // Columns of one dimension are one run, however many there are.
    const int64_t behind = (int64_t(size) - 1) * inner;
    const int64_t wrap = last > 0 ? shape.columns.step[0].*member - behind : inner;
    return std::bit_cast<Packed>(load_apart(from, {inner, wrap, fold_at, size}, count));
  }
  __device__ __forceinline__ Packed load_x(const MvnGradPlace& row) const {
    return load(args.x, shape.is_x_packed, &MvnGradPlace::x, row);
  }
  __device__ __forceinline__ Packed load_grad(const MvnGradPlace& row) const {
    return load(args.grad, shape.is_grad_packed, &MvnGradPlace::grad, row);
  }
  __device__ __forceinline__ void store(const float (&v)[kN], const MvnGradPlace& row) const {
    const Vector<T, kN> values = narrow<T>(v);
    T* const to = args.dx + origin.dx + row.dx;
    if (shape.is_dx_packed) return store_vector(to + first.dx, values);
#pragma unroll
    for (int e = 0; e < kN; ++e)
      if (e < count) to[shape.columns.at(column + e).dx] = values.v[e];
  }
};

/// What does not change down a thread's columns.
template <class T>
struct MvnGradColumnOperands {
  static constexpr int kN = kMvnGradColumns;

  float scale[kN], bias[kN];
  Normalizer<float> normal[kN];

  __device__ __forceinline__ MvnGradColumnOperands(const MvnGradColumn<T>& c) {
#pragma unroll
    for (int e = 0; e < kN; ++e) {
      const MvnGradPlace at = e < c.count ? c.at(e) : MvnGradPlace{};
      scale[e] = e < c.count ? c.args.scale.at(at.scale) : 1.0f;
      bias[e] = e < c.count ? c.args.bias.at(at.bias) : 0.0f;
    }
  }

  /// z of a row's x, and h of its grad.
  __device__ __forceinline__ void elements(const MvnGradArgs<T>& args,
                                           const typename MvnGradColumn<T>::Packed& x,
                                           const typename MvnGradColumn<T>::Packed& grad,
                                           bool passes, float (&z)[kN], float (&h)[kN]) const {
    widen(unpacked<T>(grad), h);
    if (args.reads_x) widen(unpacked<T>(x), z);
#pragma unroll
    for (int e = 0; e < kN; ++e) z[e] = args.reads_x ? normal[e](z[e]) : 0.0f;
    if (passes) args.pass(z, scale, bias, h);
  }
};

/// Sums of a thread's columns, some rows in float at a time.
template <class T>
struct MvnGradColumnSums {
  static constexpr int kN = kMvnGradColumns, kRows = kColumnRows<T>;
  using Column = MvnGradColumn<T>;
  using Packed = typename Column::Packed;

  float y[kN] = {}, square[kN] = {}, h[kN] = {}, hy[kN] = {};
  uint32_t rows = 0;

  __device__ __forceinline__ void set_pivots(const Packed (&x)[kRows], uint32_t n,
                                             Normalizer<float> (&normal)[kN]) {
    float mean[kN] = {};
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      if (uint32_t(r) >= n) break;
      float v[kN];
      widen(unpacked<T>(x[r]), v);
#pragma unroll
      for (int e = 0; e < kN; ++e) mean[e] += v[e];
    }
#pragma unroll
    for (int e = 0; e < kN; ++e) {
      mean[e] /= float(n);
      const float pivot =
          pivot_near(mean[e], n, [&] { return load_as_acc(unpacked<T>(x[0]).v[e]); });
      normal[e].pivot = is_finite(pivot) ? pivot : 0.0f;
    }
  }

  __device__ __forceinline__ void add(const Column& c, MvnGradPass pass, bool finds_pivot,
                                      MvnGradColumnOperands<T>& operands) {
    const bool has_moments = pass == MvnGradPass::moments || pass == MvnGradPass::together;
    const bool reads_grad = pass != MvnGradPass::moments;
    const bool passes = !has_moments && c.args.activation != ActivationKind::identity;
    for (uint32_t row = c.begin; row < c.end; row += kRows * Column::kSteps) {
      Packed x[kRows] = {}, grad[kRows] = {};
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
        if (row + r * Column::kSteps >= c.end) break;
        const MvnGradPlace at = c.shape.rows.at(row + r * Column::kSteps);
        if (c.args.reads_x) x[r] = c.load_x(at);
        if (reads_grad) grad[r] = c.load_grad(at);
      }
      const uint32_t left = (c.end - row + Column::kSteps - 1) / Column::kSteps;
      const uint32_t n = min(left, uint32_t(kRows));
      if (rows == 0 && finds_pivot) set_pivots(x, n, operands.normal);
      MvnGradColumnSums<T> some;
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
        if (uint32_t(r) >= n) break;
        float z[kN], with[kN];
        operands.elements(c.args, x[r], grad[r], passes, z, with);
        some.add_row(z, with, has_moments);
      }
      join(some);
      rows += n;
    }
  }

 private:
  __device__ __forceinline__ void add_row(const float (&z)[kN], const float (&with)[kN],
                                          bool has_moments) {
#pragma unroll
    for (int e = 0; e < kN; ++e) {
      if (has_moments) {
        y[e] += z[e];
        square[e] = fused(z[e], z[e], square[e]);
      }
      h[e] += with[e];
      hy[e] = fused(with[e], z[e], hy[e]);
    }
  }
  __device__ __forceinline__ void join(const MvnGradColumnSums& some) {
#pragma unroll
    for (int e = 0; e < kN; ++e) {
      y[e] += some.y[e];
      square[e] += some.square[e];
      h[e] += some.h[e];
      hy[e] += some.hy[e];
    }
  }
};

/// The sums of a block's threads, by column.
struct MvnGradColumnScratch {
  static constexpr int kColumns = kMvnGradColumns * kMvnGradColumnLanes;
  static constexpr int kWarps = kMvnGradPartThreads / 32;

  Raw<double> sums[4][kWarps][kColumns];
  float pivots[kColumns];
  bool takes[kColumns];
};

/// Two of a warp's lanes, then all warps, share a column: its part, where `takes` says so.
template <class T>
__device__ __forceinline__ void join_columns(const MvnGradColumn<T>& c,
                                             const MvnGradColumnSums<T>& sums,
                                             const MvnGradColumnOperands<T>& operands, bool has_z,
                                             MvnGradColumnScratch& scratch, MvnGradPart* parts) {
  constexpr int kN = kMvnGradColumns, kLanes = kMvnGradColumnLanes;
  const int lane = int(threadIdx.x) % kLanes, warp = int(threadIdx.x) / 32;
#pragma unroll
  for (int e = 0; e < kN; ++e) {
    MvnGradPart part{sums.y[e],  sums.square[e],           sums.h[e],
                     sums.hy[e], operands.normal[e].pivot, sums.rows};
    if (!has_z && sums.rows > 0) part.move(scratch.pivots[lane * kN + e]);
    const double all[] = {part.y, part.square, part.h, part.hy};
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      const double both = all[k] + exchange(all[k], kLanes);
      if (threadIdx.x % 32 < kLanes) scratch.sums[k][warp][lane * kN + e].value() = both;
    }
  }
  __syncthreads();
  const int column = int(threadIdx.x) % MvnGradColumnScratch::kColumns;
  const int k = int(threadIdx.x) / MvnGradColumnScratch::kColumns;
  double sum = 0;
  for (int w = 0; w < MvnGradColumnScratch::kWarps; ++w) sum += scratch.sums[k][w][column].value();
  const int64_t at = c.column - lane * kN + column;
  if (at < c.shape.columns.count && scratch.takes[column]) {
    MvnGradPart& part = parts[c.part + at];
    (k == 0 ? part.y : k == 1 ? part.square : k == 2 ? part.h : part.hy) = sum;
    if (k == 0) {
      const uint32_t first = c.begin - threadIdx.x / kLanes;
      part.pivot = has_z ? NAN : scratch.pivots[column];
      part.count = min(first + c.shape.part_rows, c.shape.row_count) - first;
    }
  }
  __syncthreads();  // the next unit takes the same shared memory
}

/// What the columns' parts add up to.
template <class T>
__global__ __launch_bounds__(kMvnGradPartThreads) void mvn_grad_column_sums_kernel(
    const MvnGradArgs<T> args, const MvnGradColumnShape shape, const MvnGradPass pass,
    const bool finds_pivot, const MvnGradState<float>* states, MvnGradPart* parts) {
  constexpr int kN = kMvnGradColumns, kLanes = kMvnGradColumnLanes;
  static_assert(MvnGradColumnScratch::kColumns * 4 == kMvnGradPartThreads);
  DEVICE_SHARED(scratch, MvnGradColumnScratch);
  const bool has_z = pass == MvnGradPass::products || pass == MvnGradPass::rest;
  for (int64_t unit = blockIdx.x; unit < shape.units; unit += gridDim.x) {
    const MvnGradColumn<T> c(args, shape, unit);
    MvnGradColumnOperands<T> operands(c);
    bool takes_any = false;
#pragma unroll
    for (int e = 0; e < kN; ++e) {
      bool takes = e < c.count;
      if (has_z && takes) operands.normal[e] = states[c.at(e).cell].normal;
      if (pass == MvnGradPass::rest && takes)
        takes = !parts[c.part + c.column + e].tells_z(operands.normal[e]);
      if (threadIdx.x < kLanes) scratch.takes[threadIdx.x * kN + e] = takes;
      takes_any |= takes;
    }
    if (pass == MvnGradPass::rest && !__syncthreads_or(takes_any)) continue;
    MvnGradColumnSums<T> sums;
    sums.add(c, pass, finds_pivot, operands);
    if (threadIdx.x < kLanes) {
#pragma unroll
      for (int e = 0; e < kN; ++e) scratch.pivots[threadIdx.x * kN + e] = operands.normal[e].pivot;
    }
    __syncthreads();
    join_columns(c, sums, operands, has_z, scratch, parts);
  }
}

/// dx. From the end: what the sums read last is still in the cache.
template <class T>
__global__ __launch_bounds__(kMvnGradPartThreads) void mvn_grad_column_apply_kernel(
    const MvnGradArgs<T> args, const MvnGradColumnShape shape, const MvnGradState<float>* states) {
  constexpr int kN = kMvnGradColumns, kRows = kColumnRows<T>;
  using Column = MvnGradColumn<T>;
  const bool passes = args.activation != ActivationKind::identity;
  const bool needs_z = args.takes_product || passes;
  for (int64_t last = blockIdx.x; last < shape.units; last += gridDim.x) {
    const Column c(args, shape, shape.units - 1 - last);
    MvnGradColumnOperands<T> operands(c);
    MvnGradState<float> state[kN];
#pragma unroll
    for (int e = 0; e < kN; ++e) {
      if (e < c.count) state[e] = states[c.at(e).cell];
      operands.normal[e] = state[e].normal;
    }
    for (uint32_t row = c.begin; row < c.end; row += kRows * Column::kSteps) {
      typename Column::Packed x[kRows] = {}, grad[kRows] = {};
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
        if (row + r * Column::kSteps >= c.end) break;
        const MvnGradPlace at = shape.rows.at(row + r * Column::kSteps);
        if (needs_z) x[r] = c.load_x(at);
        grad[r] = c.load_grad(at);
      }
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
        if (row + r * Column::kSteps >= c.end) break;
        float z[kN], w[kN];
        operands.elements(args, x[r], grad[r], passes, z, w);
#pragma unroll
        for (int e = 0; e < kN; ++e) w[e] = args.dx_of(z[e], w[e] * operands.scale[e], state[e]);
        c.store(w, shape.rows.at(row + r * Column::kSteps));
      }
    }
  }
}

}  // namespace cudml::cuda
