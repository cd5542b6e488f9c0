// What every normalization kernel is given, and statistics that threads join.
#pragma once

#include "core/fast_div.h"
#include "cuda/epilogue.cuh"
#include "cuda/mvn_kernels.h"
#include "cuda/reduce.cuh"
#include "math/moments.h"

namespace cudml::cuda {

/// Where a position stands in each tensor, in elements.
struct MvnOffsets {
  int64_t x = 0, y = 0, scale = 0, bias = 0;

  HD void add(const MvnAxis& a, int64_t steps) {
    x += steps * a.x;
    y += steps * a.y;
    scale += steps * a.scale;
    bias += steps * a.bias;
  }
  HD void add(const MvnOffsets& o) {
    x += o.x;
    y += o.y;
    scale += o.scale;
    bias += o.bias;
  }
};

/// Positions of some dimensions, the last one fastest.
struct MvnWalk {
  int rank = 0;
  bool is_small = true;  // every size is below 2^31
  MvnAxis axes[kMaxRank];
  FastDiv sizes[kMaxRank];

  MvnWalk() = default;
  MvnWalk(const MvnAxis* given, int given_rank) : rank(given_rank) {
    for (int d = 0; d < rank; ++d) {
      axes[d] = given[d];
      is_small &= axes[d].size < kMvnOffsetLimit;
      if (is_small) sizes[d] = FastDiv(uint32_t(axes[d].size));
    }
  }

  /// For fewer than 2^31 positions.
  __device__ __forceinline__ MvnOffsets at(uint32_t index) const {
    MvnOffsets offsets;
#pragma unroll 1
    for (int d = rank - 1; d > 0; --d) {
      const uint32_t rest = sizes[d].quotient(index);
      offsets.add(axes[d], index - rest * sizes[d].divisor);
      index = rest;
    }
    if (rank > 0) offsets.add(axes[0], index);
    return offsets;
  }

  /// For any number.
  __device__ __forceinline__ MvnOffsets at_any(int64_t index) const {
    if (index < kMvnOffsetLimit && is_small) return at(uint32_t(index));
    MvnOffsets offsets;
#pragma unroll 1
    for (int d = rank - 1; d >= 0; --d) {
      const int64_t rest = index / axes[d].size;
      offsets.add(axes[d], index - rest * axes[d].size);
      index = rest;
    }
    return offsets;
  }
};

struct MvnPointers {
  const void *x, *scale, *bias;
  void* y;           // null where statistics alone are asked for
  void* statistics;  // device memory for Moments of every group, or null
};

/// Whether every access to a tensor, kVector elements along the innermost reduced dimension, is one
/// aligned vector: `is_whole` says that accesses do not cross from one step of the dimension
/// outside to the next.
inline bool are_accesses_packed(const MvnPlan& plan, int64_t MvnAxis::* stride, const void* data,
                                bool is_whole) {
  const int64_t vector = mvn_vector(plan.dtype);
  const int inner = plan.reduced_rank - 1;
  if (inner < 0 || plan.reduced[inner].*stride != 1) return false;
  if (reinterpret_cast<uintptr_t>(data) % kMvnAccess != 0) return false;
  for (int d = 0; d < plan.kept_rank; ++d)
    if (plan.kept[d].*stride % vector != 0) return false;
  bool is_joined = true;
  for (int d = 0; d < inner; ++d) {
    const MvnAxis &outside = plan.reduced[d], &next = plan.reduced[d + 1];
    is_joined &= outside.*stride == next.*stride * next.size;
    if (outside.*stride % vector != 0 && !is_joined) return false;
  }
  return is_whole || is_joined;
}

template <class T>
struct MvnArgs {
  using A = Acc<T>;

  const T* x;
  T* y;
  Moments<A>* statistics;  // of the groups, where they are results; else null
  Parameter<T> scale, bias;
  Activate<A> activate;
  MvnWalk kept, reduced;
  int64_t groups, group_size;
  bool use_mean, use_variance;
  double epsilon;

  MvnArgs(const MvnPlan& plan, const MvnPointers& p)
      : x(static_cast<const T*>(p.x)),
        y(static_cast<T*>(p.y)),
        statistics(static_cast<Moments<A>*>(p.statistics)),
        scale(p.scale, plan.scale_dtype, 1),
        bias(p.bias, plan.bias_dtype, 0),
        activate(plan.activation),
        kept(plan.kept, plan.kept_rank),
        reduced(plan.reduced, plan.reduced_rank),
        groups(plan.groups),
        group_size(plan.group_size),
        use_mean(plan.use_mean),
        use_variance(plan.use_variance),
        epsilon(plan.epsilon) {}

  __device__ __forceinline__ bool has_statistics() const { return use_mean || use_variance; }

  /// What the n values of a group that begins at `first` in x are measured from, their mean known.
  __device__ __forceinline__ A pivot(A mean, double n, int64_t first) const {
    return pivot_near(mean, n, [&] { return load_as_acc(x[first]); });
  }

  /// The statistics of n values whose sums about the pivot are these. No mean wanted: pivot is 0.
  __device__ __forceinline__ Moments<A> moments(double n, A pivot, double sum,
                                                double square_sum) const {
    if (!use_mean) return {n, 0, 0, square_sum};
    return moments_about(n, pivot, sum, square_sum);
  }

  /// Of all threads that make a group's normalizer, one keeps its statistics.
  __device__ __forceinline__ Normalizer<A> normalizer(const Moments<A>& m, int64_t group,
                                                      bool keeps) const {
    if (statistics && keeps) statistics[group] = m;
    return has_statistics() ? normalizer_of(m, use_variance, epsilon) : Normalizer<A>{};
  }

  /// One element of the result.
  __device__ __forceinline__ void write(const MvnOffsets& at,
                                        const Normalizer<A>& normalizer) const {
    A value[1] = {fused(normalizer(load_as_acc(x[at.x])), scale.at(at.scale), bias.at(at.bias))};
    activate(value);
    y[at.y] = store_as<T>(value[0]);
  }
};

/// Joins statistics, of which some may be of nothing.
struct MergeMoments {
  template <class A>
  __device__ __forceinline__ Moments<A> operator()(const Moments<A>& a, const Moments<A>& b) const {
    if (b.n == 0) return a;
    if (a.n == 0) return b;
    return merge(a, b);
  }
};

template <class A>
__device__ __forceinline__ Moments<A> moments_of_lane_above(const Moments<A>& m, int distance) {
  return {
      __shfl_down_sync(kFullMask, m.n, distance), __shfl_down_sync(kFullMask, m.pivot, distance),
      __shfl_down_sync(kFullMask, m.delta, distance), __shfl_down_sync(kFullMask, m.m2, distance)};
}

}  // namespace cudml::cuda
