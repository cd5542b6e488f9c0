// What the launchers of pooling's kernels share.
#pragma once

#include "cuda/launch.cuh"
#include "cuda/pool_kernels.h"

namespace cudml::cuda {

/// What becomes of a window's taps. `winner` is the maximum together with its index.
enum class Pooled { max, winner, average, lp };

/// One launch: what remains of a call at one place of the outer batch dimensions.
struct PoolCall {
  const PoolPlan& plan;
  const Choice& choice;
  const void* x;
  void* y;
  void* indices;
  int64_t first_flat;
  const Target& target;

  PoolKernel kernel() const { return PoolKernel(choice.kernel); }
};

void launch_pool_tile(const PoolCall& call);
void launch_pool_lanes(const PoolCall& call);
void launch_pool_reduce(const PoolCall& call);
void launch_pool_separable(const PoolCall& call);
void launch_pool_window(const PoolCall& call);
void launch_pool_generic(const PoolCall& call);

/// The element types that the tile kernels and the lanes kernel take, without and with indices.
using CommonTypes = Types<float, Float16, BFloat16>;
using CommonMaxTypes = Types<float, Float16, BFloat16, int8_t, uint8_t>;

/// Calls fn.operator()<T, kWhat>() for a plan's element type, one of MaxTypes, WinnerTypes or
/// SumTypes, and for what becomes of its windows.
template <class MaxTypes, class WinnerTypes, class SumTypes, class Fn>
void visit_pooled(const PoolPlan& plan, Fn&& fn) {
  const auto with = [&]<Pooled kWhat>(auto types) {
    visit(plan.dtype, types, [&]<class T>() { fn.template operator()<T, kWhat>(); });
  };
  if (plan.kind == PoolKind::average) return with.template operator()<Pooled::average>(SumTypes{});
  if (plan.kind == PoolKind::lp) return with.template operator()<Pooled::lp>(SumTypes{});
  if (plan.with_indices) return with.template operator()<Pooled::winner>(WinnerTypes{});
  with.template operator()<Pooled::max>(MaxTypes{});
}

/// Whether n elements at `p` are one aligned vector, or several of 16 bytes, wherever the strides
/// of a tensor lead.
inline bool makes_vectors(const void* p, const PoolStrides& strides, int64_t n, int64_t bytes) {
  const int64_t vector = n * bytes < 16 ? n * bytes : 16;
  int64_t bits = int64_t(reinterpret_cast<uintptr_t>(p) % 16);
  for (int i = 0; i < 3; ++i) {
    if (i < 2) bits |= strides.batch[i] * bytes;
    if (i < 2 || strides.space[i] != 1) bits |= strides.space[i] * bytes;
  }
  return bits % vector == 0;
}

}  // namespace cudml::cuda
