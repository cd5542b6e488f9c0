// Statistics of any groups: blocks take parts of them, then one thread joins the parts of each.
#pragma once

#include "core/dtype.h"
#include "core/operands.h"
#include "cuda/convert.cuh"
#include "cuda/grid.cuh"
#include "cuda/mvn_args.cuh"
#include "cuda/mvn_two_phase_kernels.h"
#include "cuda/strided_walk.cuh"

namespace cudml::cuda {

/// Where groups stand and their statistics go.
struct StatisticsResults {
  StridedWalk<StatisticsPlan::kTensors> groups;
  void* outputs[3];                   // null where one is not wanted
  bool is_wide, is_variance = false;  // which is the third then, rather than m2

  StatisticsResults(const StatisticsPlan& plan, const Operands& o)
      : groups(plan.kept, plan.kept_rank),
        outputs{o.outputs[0], o.outputs[1], o.outputs[2]},
        is_wide(plan.result_dtype == Dtype::float64) {}

  /// Mean and variance beside a normalized result.
  StatisticsResults(const MvnPlan& plan, const Operands& o)
      : outputs{nullptr, plan.has_mean_result ? o.outputs[1] : nullptr,
                plan.has_variance_result ? o.outputs[2] : nullptr},
        is_wide(plan.dtype == Dtype::float64),
        is_variance(true) {
    for (int d = 0; d < plan.statistics_rank; ++d) {
      const auto& axis = plan.statistics[d];
      groups.add({axis.size,
                  {axis.stride[MvnPlan::kX], 0, axis.stride[MvnPlan::kMean],
                   axis.stride[MvnPlan::kVariance]}});
    }
  }

  /// Statistics of nothing are 0.
  template <class A>
  __device__ void put(int64_t group, const Moments<A>& m) const {
    const auto place = groups.at(group);
    const double values[] = {m.n, double(m.pivot) + m.delta, is_variance ? m.m2 / m.n : m.m2};
#pragma unroll
    for (int i = 0; i < 3; ++i) {
      const int64_t at = place[StatisticsPlan::kCount + i];
      if (!outputs[i]) continue;
      if (is_wide)
        static_cast<double*>(outputs[i])[at] = values[i];
      else
        static_cast<float*>(outputs[i])[at] = static_cast<float>(values[i]);
    }
  }
};

template <class T>
struct StatisticsArgs {
  const T* x;
  StatisticsResults results;
  StridedWalk<StatisticsPlan::kTensors> group;
  int64_t groups, group_size, parts, part_size;
  bool use_mean;

  StatisticsArgs(const StatisticsPlan& plan, const Operands& o)
      : x(static_cast<const T*>(o.inputs[0])),
        results(plan, o),
        group(plan.reduced, plan.reduced_rank),
        groups(plan.groups),
        group_size(plan.group_size),
        parts(statistics_parts(plan)),
        part_size((plan.group_size + parts - 1) / parts),
        use_mean(plan.use_mean) {}

  __device__ Acc<T> read(int64_t first, int64_t i) const {
    return load_as_acc(x[first + group.at(i)[StatisticsPlan::kX]]);
  }

  /// The statistics of elements [begin, end) of the group that begins at `first`, known to thread
  /// 0. Each thread takes a few elements at a time, and reads them twice.
  __device__ Moments<Acc<T>> part(int64_t first, int64_t begin, int64_t end) const {
    using A = Acc<T>;
    constexpr int64_t kTile = 16 * kTwoPhaseThreads;
    Moments<A> moments;
    for (int64_t from = begin + threadIdx.x; from < end; from += kTile) {
      const int64_t to = min(from + kTile, end);
      const auto count = double((to - from + kTwoPhaseThreads - 1) / kTwoPhaseThreads);
      A pivot = 0, sum = 0, square = 0;
      if (use_mean) {
#pragma unroll 1
        for (int64_t i = from; i < to; i += kTwoPhaseThreads) sum += read(first, i);
        pivot = pivot_of<A>(sum, count);
      }
      sum = 0;
#pragma unroll 1
      for (int64_t i = from; i < to; i += kTwoPhaseThreads) {
        const A d = read(first, i) - pivot;
        sum += d;
        square += d * d;
      }
      const Moments<A> tile = use_mean ? moments_about<A>(count, pivot, sum, square)
                                       : Moments<A>{count, 0, 0, double(square)};
      moments = MergeMoments{}(moments, tile);
    }
    return block_reduce<kTwoPhaseThreads>(moments, MergeMoments{});
  }
};

/// `joined` holds the parts of all groups, where a group has more than one.
template <class T>
__global__ __launch_bounds__(kTwoPhaseThreads) void statistics_part_kernel(
    const StatisticsArgs<T> args, Moments<Acc<T>>* joined) {
  for (int64_t i = blockIdx.x; i < args.groups * args.parts; i += gridDim.x) {
    const int64_t group = i / args.parts, begin = (i - group * args.parts) * args.part_size;
    const int64_t first = args.results.groups.at(group)[StatisticsPlan::kX];
    const Moments<Acc<T>> moments =
        args.part(first, begin, min(begin + args.part_size, args.group_size));
    if (threadIdx.x != 0) continue;
    if (args.parts > 1)
      joined[i] = moments;
    else
      args.results.put(group, moments);
  }
}

/// Joins the parts of each group in their order; one part is the group's statistics.
template <class A>
__global__ __launch_bounds__(kTwoPhaseThreads) void statistics_join_kernel(
    const StatisticsResults results, const Moments<A>* parts, int64_t count) {
  for (int64_t g = thread_in_grid(); g < results.groups.count; g += threads_in_grid()) {
    Moments<A> moments = parts[g * count];
    for (int64_t p = 1; p < count; ++p) moments = MergeMoments{}(moments, parts[g * count + p]);
    results.put(g, moments);
  }
}

}  // namespace cudml::cuda
