// Joins what parts of cells add up to: states of cells, elements of totals.
#pragma once

#include "cuda/mvn_grad_parts.cuh"

namespace cudml::cuda {

/// The parts of a cell, or of a total's element: where they stand and what multiplies their h.
struct MvnGradPartWalks {
  MvnGradWalk outer, inner;  // x: the part's number
  GivenValue scale;          // without data where parts hold w, or there is none
  int threads = 32;          // of the block that takes the inner ones

  __device__ double scale_at(int64_t at) const { return scale.data ? scale.at(at) : 1; }

  __device__ __forceinline__ MvnGradPlace at(const MvnGradPlace& origin, int64_t i) const {
    MvnGradPlace place = inner.at(i);
    place.add(origin, 1);
    return place;
  }
};

/// Two sums over the inner parts, known to all threads.
template <class Fn>
__device__ __forceinline__ TwoSums sum_parts(const MvnGradPartWalks& walks,
                                             const MvnGradPlace& origin, Raw<TwoSums>* scratch,
                                             const Fn& fn) {
  TwoSums sums;
  for (int64_t i = threadIdx.x; i < walks.inner.count; i += blockDim.x)
    sums += fn(walks.at(origin, i));
  __syncthreads();
  return block_all_sum(sums, scratch);
}

/// What a cell's parts are joined to.
struct MvnGradJoin {
  bool has_moments, has_sums;  // statistics; the means of w and w * z
  bool use_mean, use_variance;
  double epsilon, n;
};

/// The statistics of cells or their means of w and of w * z, a block for each.
__global__ __launch_bounds__(kMvnGradPartThreads) void mvn_grad_cell_join_kernel(
    const MvnGradPartWalks walks, const MvnGradJoin join, const MvnGradPart* parts,
    MvnGradState<float>* states) {
  DEVICE_SHARED(scratch, Raw<TwoSums>[32]);
  for (int64_t c = blockIdx.x; c < walks.outer.count; c += gridDim.x) {
    const MvnGradPlace origin = walks.outer.at(c);
    MvnGradState<float> state;
    if (join.has_moments) {
      float pivot = 0;
      if (join.use_mean)
        pivot = pivot_of<float>(sum_parts(walks, origin, scratch,
                                          [&](const MvnGradPlace& at) {
                                            const MvnGradPart& p = parts[at.x];
                                            return TwoSums{p.y + double(p.pivot) * p.count, 0};
                                          })
                                    .first,
                                join.n);
      const TwoSums sums = sum_parts(walks, origin, scratch, [&](const MvnGradPlace& at) {
        MvnGradPart p = parts[at.x];
        p.move(pivot);
        return TwoSums{p.y, p.square};
      });
      const Moments<float> moments =
          join.use_mean ? moments_about<float>(join.n, pivot, sums.first, sums.second)
                        : Moments<float>{join.n, 0, 0, sums.second};
      state.normal = normalizer_of(moments, join.use_variance, join.epsilon);
    } else {
      state.normal = states[origin.cell].normal;
    }
    if (join.has_sums) {
      const TwoSums sums = sum_parts(walks, origin, scratch, [&](const MvnGradPlace& at) {
        const MvnGradPart& p = parts[at.x];
        const double s = walks.scale_at(at.scale);
        return TwoSums{s * p.h, s * p.hz(state.normal)};
      });
      if (join.use_mean) state.mean_w = static_cast<float>(sums.first / join.n);
      if (join.use_variance) state.mean_wz = static_cast<float>(sums.second / join.n);
    }
    if (threadIdx.x == 0) states[origin.cell] = state;
  }
}

/// The elements of a total, a block for each. `first` is that of h * z, or of w; else that of h, or
/// of w * z.
__global__ __launch_bounds__(kMvnGradPartThreads) void mvn_grad_total_join_kernel(
    const MvnGradPartWalks walks, const MvnGradResult result, bool is_first, bool are_sums,
    const MvnGradPart* parts, const MvnGradState<float>* states) {
  DEVICE_SHARED(scratch, Raw<TwoSums>[32]);
  for (int64_t e = blockIdx.x; e < walks.outer.count; e += gridDim.x) {
    const TwoSums sums = sum_parts(walks, walks.outer.at(e), scratch, [&](const MvnGradPlace& at) {
      const MvnGradPart& p = parts[at.x];
      const double s = are_sums ? walks.scale_at(at.scale) : 1;
      return TwoSums{is_first == are_sums ? s * p.h : s * p.hz(states[at.cell].normal), 0};
    });
    if (threadIdx.x == 0) result.store(e, sums.first);
  }
}

}  // namespace cudml::cuda
