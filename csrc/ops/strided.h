// Dimensions that several tensors walk together, sorted and joined.
#pragma once

#include <algorithm>

#include "core/tensor.h"

namespace cudml {

/// One dimension and the strides of kTensors tensors along it, in elements; 0 where one is
/// broadcast.
template <int kTensors>
struct StridedAxis {
  static constexpr int kCount = kTensors;

  int64_t size = 1;
  int64_t stride[kTensors] = {};
};

/// Sorts by the memory of the first tensor, then of the second, the fastest dimension last, and
/// joins neighbours that every tensor can walk as one. Returns how many remain.
template <int kTensors>
int collapse(StridedAxis<kTensors>* axes, int rank) {
  using Axis = StridedAxis<kTensors>;
  std::stable_sort(axes, axes + rank, [](const Axis& a, const Axis& b) {
    return a.stride[0] != b.stride[0] ? a.stride[0] > b.stride[0] : a.stride[1] > b.stride[1];
  });
  const auto can_merge = [](const Axis& outer, const Axis& inner) {
    for (int t = 0; t < kTensors; ++t)
      if (outer.stride[t] != inner.stride[t] * inner.size) return false;
    return true;
  };
  int collapsed = 0;
  for (int d = 0; d < rank; ++d) {
    Axis axis = axes[d];
    while (collapsed > 0 && can_merge(axes[collapsed - 1], axis))
      axis.size *= axes[--collapsed].size;
    axes[collapsed++] = axis;
  }
  return collapsed;
}

/// The distinct elements that tensor `t` has along the dimensions.
template <int kTensors>
int64_t distinct_elements(const StridedAxis<kTensors>* axes, int rank, int t) {
  int64_t n = 1;
  for (int d = 0; d < rank; ++d)
    if (axes[d].size == 0 || axes[d].stride[t]) n *= axes[d].size;
  return n;
}

}  // namespace cudml
