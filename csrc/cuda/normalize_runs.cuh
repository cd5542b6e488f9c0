// Normalization with given statistics where neighbours in memory share all that is given: packed
// sheets of such runs are read in vectors, wherever runs begin.
#pragma once

#include "core/fast_div.h"
#include "cuda/epilogue.cuh"
#include "cuda/normalize_cells.cuh"

namespace cudml::cuda {

/// The cell of a run. Cells number fewer than 2^31.
struct RunCells {
  int rank = 0;
  FastDiv size[kMaxRank];
  uint32_t stride[kMaxRank];

  RunCells(const NormalizePlan& plan, const NormalizeCells& cells) {
    for (int d = 0; d + 1 < plan.rank; ++d) {
      size[d] = FastDiv(uint32_t(plan.axis[d].size));
      stride[d] = uint32_t(cells.stride[d]);
      ++rank;
    }
  }

  __device__ __forceinline__ uint32_t of(uint32_t run) const {
    uint32_t cell = 0;
#pragma unroll 1
    for (int d = rank - 1; d > 0; --d) {
      const uint32_t rest = size[d].quotient(run);
      cell += (run - rest * size[d].divisor) * stride[d];
      run = rest;
    }
    return rank > 0 ? cell + run * stride[0] : 0;
  }
};

template <class T>
struct NormalizeRuns {
  const T* x;
  T* y;
  Activate<float> activate;
  StridedWalk<2> sheets;  // x, y
  FastDiv parts, run;
  uint32_t size, runs;  // elements and runs of a sheet
  RunCells cells;

  NormalizeRuns(const NormalizePlan& plan, const NormalizeSheets& sheet,
                const NormalizeCells& shared, const Operands& o)
      : x(static_cast<const T*>(o.inputs[0])),
        y(static_cast<T*>(o.outputs[0])),
        activate(plan.activation),
        parts(uint32_t(sheet.parts)),
        run(uint32_t(sheet.run)),
        size(uint32_t(sheet.size)),
        runs(uint32_t(sheet.size / sheet.run)),
        cells(plan, shared) {
    for (int d = 0; d < sheet.apart; ++d)
      sheets.add(
          {plan.axis[d].size,
           {plan.axis[d].stride[NormalizePlan::kX], plan.axis[d].stride[NormalizePlan::kY]}});
  }
};

/// One thread's view of a sheet.
template <class T>
struct NormalizeSheet {
  static constexpr int kN = kVector<T>;

  const NormalizeRuns<T>& args;
  const RunCell* prepared;
  const T* x;
  T* y;
  uint32_t first_run;

  /// The cell of the element at position i, and how many elements from there on share it.
  __device__ __forceinline__ RunCell cell(uint32_t i, uint32_t& left) const {
    const uint32_t r = args.run.quotient(i);
    left = (r + 1) * args.run.divisor - i;
    return prepared[args.cells.of(first_run + r)];
  }

  __device__ __forceinline__ static float normalized(float v, const RunCell& cell) {
    return fused(cell.normal(v), cell.scale, cell.bias);
  }

  /// kN elements from position i on; `left` of them, or more, are of `cell`.
  __device__ __forceinline__ void write(const Carrier& carrier, uint32_t i, const RunCell& cell,
                                        uint32_t left) const {
    float v[kN];
    widen(unpacked<T>(carrier), v);
    if (left >= uint32_t(kN)) {
#pragma unroll
      for (int e = 0; e < kN; ++e) v[e] = normalized(v[e], cell);
    } else {  // runs are longer than a vector
      uint32_t more;
      const RunCell next = this->cell(i + left, more);
#pragma unroll
      for (int e = 0; e < kN; ++e)
        v[e] = uint32_t(e) < left ? normalized(v[e], cell) : normalized(v[e], next);
    }
    args.activate(v);
    store_vector<kN>(y + i, narrow<T>(v));
  }

  /// Those of the kN elements from position i on that the sheet has.
  __device__ __forceinline__ void write_rest(int i) const {
#pragma unroll 1
    for (int e = max(i, 0); e < min(i + kN, int(args.size)); ++e) {
      uint32_t left;
      float v[1] = {normalized(load_as_acc(x[e]), cell(uint32_t(e), left))};
      args.activate(v);
      y[e] = store_as<T>(v[0]);
    }
  }
};

/// Elements between an address and the aligned one before it.
template <class T>
__device__ __forceinline__ int elements_behind(const T* p) {
  return int(reinterpret_cast<uintptr_t>(p) / sizeof(T) % kVector<T>);
}

/// A vector's elements from anywhere. Not inlined: it would be copied for each of a thread's
/// accesses.
template <class T>
__device__ __noinline__ Carrier gathered(const T* x) {
  Vector<T, kVector<T>> values;
#pragma unroll
  for (int e = 0; e < kVector<T>; ++e) values.v[e] = x[e];
  return std::bit_cast<Carrier>(values);
}

template <class T>
__global__ __launch_bounds__(kRunThreads) void normalize_runs_kernel(const NormalizeRuns<T> args,
                                                                     const RunCell* prepared) {
  constexpr int kN = kVector<T>, kStep = kRunThreads * kN;
  const uint32_t number = args.parts.quotient(blockIdx.x);
  const uint32_t part = blockIdx.x - number * args.parts.divisor;
  const auto place = args.sheets.at(number);
  const NormalizeSheet<T> sheet{args, prepared, args.x + place[0], args.y + place[1],
                                number * args.runs};
  // Vectors are aligned in y; where they are not in x too, its elements come one by one.
  const int behind = elements_behind(sheet.y);
  const bool is_x_aligned = elements_behind(sheet.x) == behind;
  const int first = int((part * kRunSlots * kRunThreads + threadIdx.x) * kN) - behind;
  const auto is_whole = [&](int i) { return i >= 0 && uint32_t(i) + kN <= args.size; };

  Carrier some[kRunSlots];
#pragma unroll
  for (int s = 0; s < kRunSlots; ++s) {
    const int i = first + s * kStep;
    if (!is_whole(i)) continue;
    some[s] = is_x_aligned ? *reinterpret_cast<const Carrier*>(sheet.x + i) : gathered(sheet.x + i);
  }
  // Two cells at a time: those of all accesses would take the registers of another block.
#pragma unroll
  for (int s = 0; s < kRunSlots; s += 2) {
    RunCell cell[2];
    uint32_t left[2] = {};
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      const int i = first + (s + j) * kStep;
      if (is_whole(i)) cell[j] = sheet.cell(uint32_t(i), left[j]);
    }
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      const int i = first + (s + j) * kStep;
      if (is_whole(i))
        sheet.write(some[s + j], uint32_t(i), cell[j], left[j]);
      else
        sheet.write_rest(i);
    }
  }
}

}  // namespace cudml::cuda
