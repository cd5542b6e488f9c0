// Launches the kernels of Lp pooling's gradient.
#include "cuda/pool_grad_lp_generic.cuh"
#include "cuda/pool_grad_lp_rows.cuh"

namespace cudml::cuda {
namespace {

/// One launch at one place of the outer batch dimensions.
template <class T>
void launch_at(const PoolGradPlan& plan, const Choice& choice, const T* x, const void* norms,
               const T* grad, T* result, const PoolGradOffsets& offset, const Target& target) {
  const int64_t norm_bytes = offset.winners * int64_t(size_of(plan.norm_dtype));
  const LpNorms<T> from{static_cast<const char*>(norms) + norm_bytes,
                        plan.norm_dtype == dtype_of<Acc<T>>};
  if constexpr (!std::is_same_v<T, double>)
    if (LpPoolGradKernel(choice.kernel) == LpPoolGradKernel::row) {
      constexpr int kN = kVector<T>;
      return launch(choice.name, lp_pool_grad_row_kernel<T>, choice.geometry, target,
                    rows_of(plan, kN, 1, kN - 1), x + offset.x, from, grad + offset.grad,
                    result + offset.result, plan.forward.p);
    }
  launch(choice.name, lp_pool_grad_generic_kernel<T>, choice.geometry, target, plan, x + offset.x,
         from, grad + offset.grad, result + offset.result, pool_grad_elements(plan),
         has_lanes(plan));
}

}  // namespace

void lp_pool_grad(const PoolGradPlan& whole, const Choice& choice, const void* x, const void* y,
                  const void* grad, void* result, const Target& target) {
  if (whole.is_empty()) return;
  const PoolGradPlan plan = in_slices(whole);
  visit(plan.forward.dtype, FloatTypes{}, [&]<class T>() {
    for_outer(plan, [&](const PoolGradOffsets& offset) {
      launch_at(plan, choice, static_cast<const T*>(x), y, static_cast<const T*>(grad),
                static_cast<T*>(result), offset, target);
    });
  });
}

}  // namespace cudml::cuda
