// Launches the kernels of average pooling's gradient.
#include "cuda/pool_grad_generic.cuh"
#include "cuda/pool_grad_pairs.cuh"
#include "cuda/pool_grad_vector_strips.cuh"

namespace cudml::cuda {
namespace {

template <class T>
void launch_generic(const PoolGradPlan& plan, const Choice& choice, const T* grad, T* result,
                    const Target& target) {
  launch(choice.name, average_pool_grad_generic_kernel<T>, choice.geometry, target, plan, grad,
         result, pool_grad_elements(plan), has_lanes(plan));
}

template <class T>
void launch_rows(const PoolGradPlan& plan, const Choice& choice, const T* grad, T* result,
                 const Target& target) {
  constexpr int kN = kVector<T>;
  switch (AveragePoolGradKernel(choice.kernel)) {
    case AveragePoolGradKernel::pairs:
      return launch(choice.name, pool_grad_pairs_kernel<T, false>, choice.geometry, target,
                    pairs_of(plan), nullptr, grad, result);
    case AveragePoolGradKernel::row:
      return launch(choice.name, average_pool_grad_row_kernel<T>, choice.geometry, target,
                    rows_of(plan, kN, 1, kN - 1), grad, result);
    case AveragePoolGradKernel::strips:
      return launch(choice.name, average_pool_grad_strips_kernel<T>, choice.geometry, target,
                    strips_of(plan, false), grad, result);
    case AveragePoolGradKernel::vector_strips:
      return launch(choice.name, average_pool_grad_vector_strips_kernel<T>, choice.geometry, target,
                    strips_of(plan, true), grad, result);
    case AveragePoolGradKernel::lanes:
      return launch(choice.name, average_pool_grad_lanes_kernel<T>, choice.geometry, target,
                    rows_of(plan, 1, kN, 0), true, grad, result);
    case AveragePoolGradKernel::place:
      return launch(choice.name, average_pool_grad_lanes_kernel<T>, choice.geometry, target,
                    rows_of(plan, 1, 1, 0), false, grad, result);
    default: return launch_generic(plan, choice, grad, result, target);
  }
}

}  // namespace

void average_pool_grad(const PoolGradPlan& whole, const Choice& choice, const void* grad,
                       void* result, const Target& target) {
  if (whole.forward.outputs() == 0) return;
  const PoolGradPlan plan = in_slices(whole);
  visit(plan.forward.dtype, FloatTypes{}, [&]<class T>() {
    for_outer(plan, [&](const PoolGradOffsets& o) {
      const T* const from = static_cast<const T*>(grad) + o.grad;
      T* const to = static_cast<T*>(result) + o.result;
      if constexpr (std::is_same_v<T, double>)
        launch_generic(plan, choice, from, to, target);
      else
        launch_rows(plan, choice, from, to, target);
    });
  });
}

}  // namespace cudml::cuda
