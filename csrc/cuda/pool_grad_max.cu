// Launches the kernels of max pooling's gradient: winners by forward pooling, then a gather.
#include <bit>

#include "cuda/pool_grad_generic.cuh"
#include "cuda/pool_grad_max_vector_strips.cuh"
#include "cuda/pool_grad_pairs.cuh"

namespace cudml::cuda {
namespace {

template <class T>
void launch_generic(const PoolGradPlan& plan, const Choice& choice, const T* grad, Winners winners,
                    T* result, const Target& target) {
  launch(choice.name, max_pool_grad_generic_kernel<T>, choice.geometry, target, plan, grad, winners,
         result, pool_grad_elements(plan), has_lanes(plan));
}

template <class T>
void launch_rows(const PoolGradPlan& plan, const Choice& choice, const T* grad, Winners winners,
                 T* result, const Target& target) {
  constexpr int kN = kVector<T>;
  const auto* const numbers = static_cast<const uint32_t*>(winners.data);
  switch (MaxPoolGradKernel(choice.kernel)) {
    case MaxPoolGradKernel::row:
      return launch(choice.name, max_pool_grad_row_kernel<T>, choice.geometry, target,
                    rows_of(plan, kN, 1, kN - 1), grad, numbers, result);
    case MaxPoolGradKernel::lanes:
      return launch(choice.name, max_pool_grad_lanes_kernel<T>, choice.geometry, target,
                    rows_of(plan, 1, kN, 0), true, grad, numbers, result);
    case MaxPoolGradKernel::place:
      return launch(choice.name, max_pool_grad_lanes_kernel<T>, choice.geometry, target,
                    rows_of(plan, 1, 1, 0), false, grad, numbers, result);
    default: return launch_generic(plan, choice, grad, winners, result, target);
  }
}

/// Fills the workspace with every window's winner. Addresses count as when the choice was made.
void find_winners(const PoolGradPlan& plan, const void* x, uintptr_t addresses,
                  const Target& target) {
  Situation situation = situation_of_device(target.device);
  situation.alignment = int64_t{1} << std::countr_zero(addresses | 256);
  const PoolPlan f = winners_plan(plan);
  Target at = target;
  at.workspace = static_cast<char*>(target.workspace) + winners_bytes(plan);
  pool(f, winners_choice(f, situation), x, nullptr, target.workspace, at);
}

/// The first kernels find them as they go.
bool needs_winners(MaxPoolGradKernel kernel) { return kernel > MaxPoolGradKernel::strips; }

/// One launch at one place of the outer batch dimensions.
template <class T>
void launch_at(const PoolGradPlan& plan, const Choice& choice, const T* x, const T* grad, T* result,
               const PoolGradOffsets& offset, const Target& target) {
  grad += offset.grad;
  result += offset.result;
  const bool is_wide = plan.forward.index_dtype != Dtype::uint32;
  const Winners winners{
      static_cast<const char*>(target.workspace) + offset.winners * (is_wide ? 8 : 4), is_wide};
  if constexpr (std::is_same_v<T, double>) {
    launch_generic(plan, choice, grad, winners, result, target);
  } else if (MaxPoolGradKernel(choice.kernel) == MaxPoolGradKernel::pairs) {
    launch(choice.name, pool_grad_pairs_kernel<T, true>, choice.geometry, target, pairs_of(plan),
           x + offset.x, grad, result);
  } else if (MaxPoolGradKernel(choice.kernel) == MaxPoolGradKernel::strips) {
    launch(choice.name, max_pool_grad_strips_kernel<T>, choice.geometry, target,
           strips_of(plan, false), x + offset.x, grad, result);
  } else if (MaxPoolGradKernel(choice.kernel) == MaxPoolGradKernel::vector_strips) {
    launch(choice.name, max_pool_grad_vector_strips_kernel<T>, choice.geometry, target,
           strips_of(plan, true), x + offset.x, grad, result);
  } else {
    launch_rows(plan, choice, grad, winners, result, target);
  }
}

}  // namespace

void max_pool_grad(const PoolGradPlan& whole, const Choice& choice, const void* x, const void* grad,
                   void* result, const Target& target) {
  if (whole.forward.outputs() == 0) return;
  const PoolGradPlan plan = in_slices(whole);
  if (needs_winners(MaxPoolGradKernel(choice.kernel)))
    find_winners(plan, x,
                 reinterpret_cast<uintptr_t>(x) | reinterpret_cast<uintptr_t>(grad) |
                     reinterpret_cast<uintptr_t>(result),
                 target);
  visit(plan.forward.dtype, FloatTypes{}, [&]<class T>() {
    for_outer(plan, [&](const PoolGradOffsets& offset) {
      launch_at(plan, choice, static_cast<const T*>(x), static_cast<const T*>(grad),
                static_cast<T*>(result), offset, target);
    });
  });
}

}  // namespace cudml::cuda
