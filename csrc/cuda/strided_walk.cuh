// Positions of dimensions that several tensors share.
#pragma once

#include "core/fast_div.h"
#include "ops/strided.h"

namespace cudml::cuda {

/// Where a position stands in each tensor, in elements.
template <int kTensors>
struct StridedPlace {
  int64_t at[kTensors] = {};

  __device__ __forceinline__ void add(const StridedAxis<kTensors>& axis, int64_t steps) {
#pragma unroll
    for (int t = 0; t < kTensors; ++t) at[t] += steps * axis.stride[t];
  }
  __device__ __forceinline__ int64_t operator[](int t) const { return at[t]; }
};

/// Positions of some dimensions, the last one fastest.
template <int kTensors>
struct StridedWalk {
  using Axis = StridedAxis<kTensors>;
  using Place = StridedPlace<kTensors>;

  int rank = 0;
  bool is_small = true;  // every size is below 2^31
  int64_t count = 1;
  Axis axis[kMaxRank];
  FastDiv divisor[kMaxRank];

  StridedWalk() = default;
  StridedWalk(const Axis* axes, int given_rank) {
    for (int d = 0; d < given_rank; ++d) add(axes[d]);
  }

  void add(const Axis& given) {
    count *= given.size;
    is_small &= given.size > 0 && given.size < int64_t{1} << 31;
    if (is_small) divisor[rank] = FastDiv(uint32_t(given.size));
    axis[rank++] = given;
  }

  __device__ Place at(int64_t index) const {
    Place place;
    const bool is_near = is_small && index < int64_t{1} << 31;
#pragma unroll 1
    for (int d = rank - 1; d > 0; --d) {
      const int64_t rest =
          is_near ? int64_t(divisor[d].quotient(uint32_t(index))) : index / axis[d].size;
      place.add(axis[d], index - rest * axis[d].size);
      index = rest;
    }
    if (rank > 0) place.add(axis[0], index);
    return place;
  }
};

}  // namespace cudml::cuda
