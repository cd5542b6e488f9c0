// What both pooling gradients share on the CPU: places of results, and windows that cover them.
#pragma once

#include "cpu/isa/paths.h"
#include "cpu/pool/walk.h"
#include "cpu/simd/convert.h"
#include "cpu/simd/vector.h"
#include "cpu/threads/parallel.h"
#include "ops/pool_grad.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

/// Tasks over the planes of a gradient: y is an offset into the incoming gradient, x into the
/// result, indices into the winners, flat into x. `lanes` cuts the innermost batch dimension into
/// chunks; the spatial dimensions are left to the caller.
inline TaskSpace plane_tasks(const PoolGradPlan& plan, bool lanes, int64_t chunk) {
  const PoolPlan& f = plan.forward;
  TaskSpace space;
  for (int i = 0; i < f.outer_rank; ++i)
    space.dim[i] = {f.outer[i].size, plan.result_outer[i], f.outer[i].y, f.outer[i].indices,
                    f.outer[i].x};
  for (int i = 0; i < 2; ++i)
    space.dim[kBatchDim + i] = {f.batch[i], plan.result.batch[i], f.y.batch[i], f.indices.batch[i],
                                f.x.batch[i]};
  if (!lanes) return space;
  TaskDim& along = space.dim[kBatchDim + 1];
  space.lanes = along.size;
  space.chunk = std::min(chunk, along.size);
  const int64_t c = space.chunk;
  space.dim[kLaneDim] = {(along.size + c - 1) / c, along.x * c, along.y * c, along.indices * c,
                         along.flat * c};
  along = TaskDim{};
  return space;
}

/// Whether neighbouring planes lie side by side in the result, and rows of a plane do not.
inline bool has_lanes(const PoolGradPlan& plan) {
  return plan.result.batch[1] == 1 && plan.forward.batch[1] >= 8 && plan.result.space[2] != 1;
}

/// Planes of n elements of a task, of packed rows that one window covers each.
inline int64_t planes_at_once(int64_t n) {
  return std::clamp<int64_t>(tuning::pool_grad::kRowElements / n, 1, tuning::pool::kPlanesAtOnce);
}

/// Outputs whose windows reach into [low, high] along an axis: [first, last], empty if first >
/// last.
struct Reach {
  int64_t first, last;
};
inline Reach reach_of(const PoolAxis& a, int64_t low, int64_t high) {
  const int64_t behind = low + a.start - (a.window - 1) * a.dilation;
  return {behind <= 0 ? 0 : (behind + a.stride - 1) / a.stride,
          std::min(a.out - 1, (high + a.start) / a.stride)};
}

/// Windows that can cover one element, at most.
inline int64_t most_covers(const PoolPlan& f) {
  int64_t n = 1;
  for (const PoolAxis& a : f.axis) {
    const int64_t steps = (a.window - 1) * a.dilation / a.stride + 1;
    n = std::min<int64_t>(1 << 30, n * std::min({a.window, a.out, steps}));
  }
  return n;
}

/// float64 is rare, and each type a copy of the loops.
inline bool is_narrow(const PoolGradPlan& plan, const Machine&) {
  return plan.forward.dtype != Dtype::float64;
}
constexpr Predicate<PoolGradPlan> kNarrow{"elements have at most 32 bits", is_narrow};

inline bool has_avx(const PoolGradPlan&, const Machine&) { return !kIsKeptSmall; }
constexpr Predicate<PoolGradPlan> kHasAvx{"the processor has AVX", has_avx};

/// Calls fn.operator()<T>() with the type of a plan that both hold for.
template <class Fn>
void visit_usual(const PoolGradPlan& plan, const Fn& fn) {
  if constexpr (!kIsKeptSmall) visit(plan.forward.dtype, Types<float, Float16, BFloat16>{}, fn);
}

/// More gradients than this may not be added up in float32 one by one.
constexpr int64_t kLongestChain = 2048;

/// load_row() and store_row(), once for all that call them: of 16-bit floats they are long.
template <class T>
[[gnu::noinline]] void load_grads(Acc<T>* dst, const T* src, int64_t stride, int64_t n) {
  load_row<T>(dst, src, stride, n);
}

template <class T>
[[gnu::noinline]] void store_grads(T* dst, int64_t stride, const Acc<T>* src, int64_t n) {
  store_row<T>(dst, stride, src, n);
}

/// Rounds n sums to T and writes them `stride` apart.
template <class T, class Sum>
void store_sums(T* dst, int64_t stride, const Sum* sums, int64_t n) {
  if constexpr (std::is_same_v<Sum, Acc<T>>) {
    store_grads<T>(dst, stride, sums, n);
  } else {
    for (int64_t i = 0; i < n; ++i) dst[i * stride] = store_as<T>(Acc<T>(sums[i]));
  }
}

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
