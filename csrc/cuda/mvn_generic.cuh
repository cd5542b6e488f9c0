// Normalization of any groups: one block after the other takes one, in 64-bit offsets.
#pragma once

#include "cuda/mvn_args.cuh"

namespace cudml::cuda {

/// The statistics of the group that stands at `group`, known to all threads of the block. Each
/// thread takes a few elements at a time, and reads them twice.
template <class T>
__device__ Moments<Acc<T>> group_moments(const MvnArgs<T>& args, const MvnOffsets& group) {
  using A = Acc<T>;
  constexpr int64_t kTile = 16 * kMvnThreads;
  const auto read = [&](int64_t i) {
    return load_as_acc(args.x[group.x + args.reduced.at_any(i).x]);
  };
  Moments<A> moments;
  for (int64_t first = threadIdx.x; first < args.group_size; first += kTile) {
    const int64_t end = min(first + kTile, args.group_size);
    const auto count = double((end - first + kMvnThreads - 1) / kMvnThreads);
    A pivot = 0, sum = 0, square = 0;
    if (args.use_mean) {
#pragma unroll 1
      for (int64_t i = first; i < end; i += kMvnThreads) sum += read(i);
      pivot = pivot_near(pivot_of<A>(sum, count), count, [&] { return read(first); });
    }
    sum = 0;
#pragma unroll 1
    for (int64_t i = first; i < end; i += kMvnThreads) {
      const A d = read(i) - pivot;
      sum += d;
      square += d * d;
    }
    moments = MergeMoments{}(moments, args.moments(count, pivot, sum, square));
  }
  return block_all_reduce<kMvnThreads>(moments, MergeMoments{});
}

template <class T>
__global__ __launch_bounds__(kMvnThreads) void mvn_generic_kernel(const MvnArgs<T> args) {
  for (int64_t g = blockIdx.x; g < args.groups; g += gridDim.x) {
    const MvnOffsets group = args.kept.at_any(g);
    Normalizer<Acc<T>> normalizer;
    if (args.has_statistics())
      normalizer = args.normalizer(group_moments(args, group), g, threadIdx.x == 0);
    if (!args.y) continue;
    for (int64_t i = threadIdx.x; i < args.group_size; i += kMvnThreads) {
      MvnOffsets at = args.reduced.at_any(i);
      at.add(group);
      args.write(at, normalizer);
    }
  }
}

}  // namespace cudml::cuda
