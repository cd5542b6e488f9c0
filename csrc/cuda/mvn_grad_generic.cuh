// The gradients of normalization for any cells, in 64-bit offsets: the cells' states, then dx
// element by element, then totals by parts.
#pragma once

#include "cuda/grid.cuh"
#include "cuda/mvn_grad_args.cuh"
#include "cuda/reduce.cuh"
#include "math/given.h"

namespace cudml::cuda {

template <class A>
struct TwoTotals {
  Total<A> first, second;
};

struct AddTotals {
  template <class A>
  __device__ __forceinline__ TwoTotals<A> operator()(TwoTotals<A> a, const TwoTotals<A>& b) const {
    a.first.add(b.first);
    a.second.add(b.second);
    return a;
  }
};

/// Cells and what is given of them.
struct MvnGradCells {
  MvnGradWalk kept, reduced;
  int64_t mean[kMaxRank], variance[kMaxRank], count_step[kMaxRank], sum[2][kMaxRank];
  GivenValue mean_of, variance_of, count_of, sum_of[2];
  bool use_mean, use_variance, are_given, has_sums, has_own_statistics, has_own_sums;
  double epsilon;

  MvnGradCells(const MvnGradPlan& plan, const Operands& o)
      : mean_of{o.inputs[4], plan.mean_dtype},
        variance_of{o.inputs[5], plan.variance_dtype},
        count_of{o.inputs[6], plan.count_dtype},
        sum_of{{o.inputs[7], plan.sum_dtypes[0]}, {o.inputs[8], plan.sum_dtypes[1]}},
        use_mean(plan.use_mean),
        use_variance(plan.use_variance),
        are_given(plan.are_given),
        has_sums(plan.has_sums),
        has_own_statistics(plan.has_own_statistics()),
        has_own_sums(plan.has_own_sums()),
        epsilon(plan.epsilon) {
    for (int d = 0; d < plan.kept_rank; ++d) {
      const MvnGradAxis& a = plan.kept[d];
      kept.add(a.size, step_of(a, 0));
      mean[d] = a.mean;
      variance[d] = a.variance;
      count_step[d] = a.count;
      for (int k = 0; k < 2; ++k) sum[k][d] = a.sums[k];
    }
    for (int d = 0; d < plan.reduced_rank; ++d)
      reduced.add(plan.reduced[d].size, step_of(plan.reduced[d], 0));
  }

  /// What tensors say of a cell (D-GRAD-18).
  template <class A>
  __device__ MvnGradState<A> given(int64_t cell) const {
    int64_t at[5] = {};
#pragma unroll 1
    for (int d = kept.rank - 1; d >= 0; --d) {
      const int64_t rest = cell / kept.size[d], i = cell - rest * kept.size[d];
      at[0] += i * mean[d];
      at[1] += i * variance[d];
      at[2] += i * count_step[d];
      at[3] += i * sum[0][d];
      at[4] += i * sum[1][d];
      cell = rest;
    }
    MvnGradState<A> state;
    if (are_given && use_mean)
      split_mean(mean_of.at(at[0]), state.normal.pivot, state.normal.delta);
    if (are_given && use_variance)
      state.normal.factor = factor_of<A>(variance_of.at(at[1]), epsilon);
    if (!has_sums) return state;
    const double n = count_of.at(at[2]);
    if (use_mean) state.mean_w = static_cast<A>(sum_of[0].at(at[3]) / n);
    if (use_variance) state.mean_wz = static_cast<A>(sum_of[1].at(at[4]) / n);
    return state;
  }
};

/// The statistics of a cell's own elements, known to all threads of the block.
template <class T, class A = Acc<T>>
__device__ Normalizer<A> own_normalizer(const MvnGradArgs<T>& args, const MvnGradCells& cells,
                                        int64_t first) {
  const int64_t n = cells.reduced.count;
  A pivot = 0;
  TwoTotals<A> sums;
  if (cells.use_mean) {
    for (int64_t i = threadIdx.x; i < n; i += kMvnGradThreads)
      sums.first.add(double(load_as_acc(args.x[first + cells.reduced.at(i).x])));
    sums = block_all_reduce<kMvnGradThreads>(sums, AddTotals{});
    pivot = pivot_near(pivot_of<A>(sums.first.value(), double(n)), double(n),
                       [&] { return load_as_acc(args.x[first]); });
    sums = {};
  }
  for (int64_t i = threadIdx.x; i < n; i += kMvnGradThreads) {
    const A d = load_as_acc(args.x[first + cells.reduced.at(i).x]) - pivot;
    sums.first.add(double(d));
    sums.second.add(double(d * d));
  }
  sums = block_all_reduce<kMvnGradThreads>(sums, AddTotals{});
  const double sum = sums.first.value(), square = sums.second.value();
  const Moments<A> moments = cells.use_mean ? moments_about<A>(double(n), pivot, sum, square)
                                            : Moments<A>{double(n), 0, 0, square};
  return normalizer_of(moments, cells.use_variance, cells.epsilon);
}

/// The state of a cell with the means of w and of w * z over it.
template <class T, class A = Acc<T>>
__device__ MvnGradState<A> with_means(const MvnGradArgs<T>& args, const MvnGradCells& cells,
                                      const MvnGradPlace& cell, const Normalizer<A>& normal) {
  TwoTotals<A> sums;
  for (int64_t i = threadIdx.x; i < cells.reduced.count; i += kMvnGradThreads) {
    MvnGradPlace at = cells.reduced.at(i);
    at.add(cell, 1);
    const MvnGradElement<A> e = args.element(at, normal);
    sums.first.add(double(e.w));
    sums.second.add(double(e.w * e.z));
  }
  sums = block_all_reduce<kMvnGradThreads>(sums, AddTotals{});
  const auto n = double(cells.reduced.count);
  MvnGradState<A> state{normal};
  if (cells.use_mean) state.mean_w = static_cast<A>(sums.first.value() / n);
  if (cells.use_variance) state.mean_wz = static_cast<A>(sums.second.value() / n);
  return state;
}

/// The states of all cells: a block for each, or a thread where tensors say all of it.
template <class T>
__global__ __launch_bounds__(kMvnGradThreads) void mvn_grad_state_kernel(
    const MvnGradArgs<T> args, const MvnGradCells cells, MvnGradState<Acc<T>>* states) {
  using A = Acc<T>;
  if (!cells.has_own_statistics && !cells.has_own_sums) {
    for (int64_t c = thread_in_grid(); c < cells.kept.count; c += threads_in_grid())
      states[c] = cells.given<A>(c);
    return;
  }
  for (int64_t c = blockIdx.x; c < cells.kept.count; c += gridDim.x) {
    const MvnGradPlace at = cells.kept.at(c);
    const Normalizer<A> normal =
        cells.has_own_statistics ? own_normalizer(args, cells, at.x) : cells.given<A>(c).normal;
    const MvnGradState<A> state =
        cells.has_own_sums ? with_means(args, cells, at, normal) : MvnGradState<A>{normal};
    if (threadIdx.x == 0) states[c] = state;
  }
}

/// dx, in the order of x's memory.
template <class T>
__global__ __launch_bounds__(kMvnGradThreads) void mvn_grad_apply_kernel(
    const MvnGradArgs<T> args, const MvnGradWalk all, const MvnGradState<Acc<T>>* states) {
  for (int64_t i = thread_in_grid(); i < all.count; i += threads_in_grid()) {
    const MvnGradPlace at = all.at(i);
    const MvnGradState<Acc<T>> state = states[at.cell];
    args.dx[at.dx] = args.result(args.element(at, state.normal), state);
  }
}

/// A total's elements and the terms of each.
struct MvnGradTerms {
  MvnGradWalk elements, terms;
  int64_t lanes, tiles, parts;
  bool are_sums;  // of w and w * z, not of h * z and h
};

/// One thread's share of a part of an element's terms.
template <class T, class A = Acc<T>>
__device__ TwoTotals<A> terms_sum(const MvnGradArgs<T>& args, const MvnGradTerms& of,
                                  const MvnGradState<A>* states, int64_t element, int64_t part) {
  TwoTotals<A> sums;
  const MvnGradPlace origin = of.elements.at(element);
  const int64_t share = (of.terms.count + of.parts - 1) / of.parts, begin = part * share;
  const int64_t end = min(begin + share, of.terms.count), rows = kMvnGradThreads / of.lanes;
  for (int64_t t = begin + threadIdx.x / of.lanes; t < end; t += rows) {
    MvnGradPlace at = of.terms.at(t);
    at.add(origin, 1);
    const MvnGradElement<A> v = args.element(at, states[at.cell].normal);
    sums.first.add(double(of.are_sums ? v.w : v.h * v.z));
    sums.second.add(double(of.are_sums ? v.w * v.z : v.h));
  }
  return sums;
}

/// What the parts of the terms add up to: a block takes a tile of elements and a part at a time.
template <class T>
__global__ __launch_bounds__(kMvnGradThreads) void mvn_grad_total_kernel(
    const MvnGradArgs<T> args, const MvnGradTerms of, const MvnGradState<Acc<T>>* states,
    Total<Acc<T>>* first, Total<Acc<T>>* second) {
  using A = Acc<T>;
  DEVICE_SHARED(scratch, Raw<TwoTotals<A>>[kMvnGradThreads]);
  const int lanes = int(of.lanes), lane = int(threadIdx.x) % lanes;
  for (int64_t unit = blockIdx.x; unit < of.tiles * of.parts; unit += gridDim.x) {
    const int64_t part = unit / of.tiles, e = unit % of.tiles * lanes + lane;
    TwoTotals<A> sums;
    if (e < of.elements.count) sums = terms_sum(args, of, states, e, part);
    __syncthreads();
    scratch[threadIdx.x].value() = sums;
    __syncthreads();
    if (int(threadIdx.x) >= lanes || e >= of.elements.count) continue;
    for (int r = 1; r < kMvnGradThreads / lanes; ++r)
      sums = AddTotals{}(sums, scratch[r * lanes + lane].value());
    if (first) first[part * of.elements.count + e] = sums.first;
    if (second) second[part * of.elements.count + e] = sums.second;
  }
}

/// A total's tensor.
struct MvnGradResult {
  void* data;
  Dtype dtype;
  int rank;
  int64_t count, size[kMaxRank], stride[kMaxRank];

  __device__ void store(int64_t index, double value) const {
    int64_t at = 0;
#pragma unroll 1
    for (int d = rank - 1; d >= 0; --d) {
      const int64_t rest = index / size[d];
      at += (index - rest * size[d]) * stride[d];
      index = rest;
    }
    switch (dtype) {
      case Dtype::float64: static_cast<double*>(data)[at] = value; break;
      case Dtype::float32: static_cast<float*>(data)[at] = static_cast<float>(value); break;
      case Dtype::float16: static_cast<Float16*>(data)[at] = store_total<Float16>(value); break;
      default: static_cast<BFloat16*>(data)[at] = store_total<BFloat16>(value);
    }
  }
};

__device__ __forceinline__ Total<float> total_of_lane(const Total<float>& t, int distance) {
  return {exchange(t.sum, distance)};
}
__device__ __forceinline__ Total<double> total_of_lane(const Total<double>& t, int distance) {
  return {exchange(t.sum, distance), exchange(t.lost, distance)};
}

/// The parts of a total, `count` of each element.
template <class A>
struct MvnGradTotalParts {
  MvnGradResult result;
  const Total<A>* data;
  int64_t count;
};

/// Adds the parts of each element in an order of their number alone, and rounds once. Some parts
/// are on their way together.
template <class A>
__global__ __launch_bounds__(kMvnGradThreads) void mvn_grad_join_kernel(
    const MvnGradTotalParts<A> first, const MvnGradTotalParts<A> second) {
  constexpr int kLanes = kMvnGradJoinLanes, kTogether = 8;
  const int lane = int(threadIdx.x) % kLanes;
  const int64_t all = first.result.count + second.result.count;
  const int64_t step = step_of_blocks(kMvnGradThreads / kLanes);
  // All lanes of a warp take part in the exchange.
  for (int64_t begin = first_of_block(kMvnGradThreads / kLanes); begin < all; begin += step) {
    const int64_t number = begin + threadIdx.x / kLanes;
    const bool is_second = number >= first.result.count;
    const MvnGradTotalParts<A>& of = is_second ? second : first;
    const int64_t e = number - (is_second ? first.result.count : 0);
    Total<A> sum;
    for (int64_t at = lane; number < all && at < of.count; at += kLanes * kTogether) {
      Total<A> some[kTogether];
#pragma unroll
      for (int p = 0; p < kTogether; ++p)
        if (at + p * kLanes < of.count) some[p] = of.data[(at + p * kLanes) * of.result.count + e];
#pragma unroll
      for (int p = 0; p < kTogether; ++p)
        if (at + p * kLanes < of.count) sum.add(some[p]);
    }
    for (int distance = kLanes / 2; distance > 0; distance /= 2)
      sum.add(total_of_lane(sum, distance));
    if (lane == 0 && number < all) of.result.store(e, sum.value());
  }
}

}  // namespace cudml::cuda
