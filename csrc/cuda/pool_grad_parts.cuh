// What the kernels of the pooling gradients share: places in a tensor, sums of many gradients, and
// the batch dimensions that are looped over outside.
#pragma once

#include "cuda/convert.cuh"
#include "cuda/launch.cuh"
#include "cuda/pool_grad_kernels.h"

namespace cudml::cuda {

/// Sums of up to 1024 gradients are kept in the type of computation; longer ones carry over into
/// float64, so that no chain of float32 additions grows long.
template <class T>
struct GradSum {
  Acc<T> run = 0;
  double carried = 0;
  uint32_t terms = 0;

  __device__ void add(Acc<T> value) {
    run += value;
    if ((++terms & 1023) != 0) return;
    carried += double(run);
    run = 0;
  }
  __device__ T result() const {
    return store_as<T>(terms < 1024 ? run : Acc<T>(carried + double(run)));
  }
};

/// The norms of Lp pooling's gradient: of type T, or of what T is computed in.
template <class T>
struct LpNorms {
  const void* data;
  bool is_wide;

  __device__ __forceinline__ Acc<T> at(int64_t offset) const {
    return is_wide ? static_cast<const Acc<T>*>(data)[offset]
                   : load_as_acc(static_cast<const T*>(data)[offset]);
  }
};

/// Coordinates in two batch and three spatial dimensions.
struct PoolPlace {
  int64_t batch[2], space[3];

  __device__ int64_t offset(const PoolStrides& s) const {
    return batch_offset(s) + space[0] * s.space[0] + space[1] * s.space[1] + space[2] * s.space[2];
  }
  __device__ int64_t batch_offset(const PoolStrides& s) const {
    return batch[0] * s.batch[0] + batch[1] * s.batch[1];
  }
};

/// The place of number `i` among batch x size; neighbours differ in the last spatial coordinate,
/// or in the last batch coordinate where `lanes` says that this is how memory runs.
__device__ inline PoolPlace place_of(int64_t i, const int64_t (&batch)[2], const int64_t (&size)[3],
                                     bool lanes) {
  PoolPlace p;
  const auto take = [&i](int64_t n) {
    const int64_t quotient = i / n, rest = i - quotient * n;
    i = quotient;
    return rest;
  };
  if (lanes) p.batch[1] = take(batch[1]);
  for (int d = 2; d >= 0; --d) p.space[d] = take(size[d]);
  if (!lanes) p.batch[1] = take(batch[1]);
  p.batch[0] = i;
  return p;
}

/// First elements of a call's tensors at one place of the outer batch dimensions.
struct PoolGradOffsets {
  int64_t x = 0, grad = 0, winners = 0, result = 0;  // winners: norms of Lp pooling
};

template <class Fn>
void for_outer(const PoolGradPlan& plan, Fn&& fn) {
  const PoolPlan& f = plan.forward;
  int64_t at[kMaxRank] = {};
  for (;;) {
    PoolGradOffsets o;
    for (int i = 0; i < f.outer_rank; ++i) {
      const int64_t position = f.outer[i].position(at[i]);
      o.x += position * f.outer[i].x;
      o.grad += position * f.outer[i].y;
      o.winners += position * f.outer[i].indices;
      o.result += position * plan.result_outer[i];
    }
    fn(o);
    int i = f.outer_rank - 1;
    while (i >= 0 && ++at[i] == f.outer[i].turns()) at[i--] = 0;
    if (i < 0) return;
  }
}

}  // namespace cudml::cuda
