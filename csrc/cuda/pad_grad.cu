// Launches the kernels of the gradient of padding.
#include "cuda/pad_grad_generic.cuh"
#include "cuda/pad_grad_rows.cuh"

namespace cudml::cuda {
namespace {

template <class T>
void launch_generic(const PadGradPlan& plan, const Choice& choice, const T* grad, T* y,
                    const Target& target) {
  const bool has_pieces = PadGradKernel(choice.kernel) == PadGradKernel::pieces;
  const PadGradLongSums long_sums(plan);
  Acc<T>* const sums = has_pieces ? static_cast<Acc<T>*>(target.workspace) : nullptr;
  if (has_pieces)
    launch(choice.name, pad_grad_pieces_kernel<T>, choice.geometry, target, plan, long_sums, grad,
           sums, plan.long_sums * plan.pieces);
  Geometry geometry = choice.geometry;
  const int64_t blocks = (plan.elements() + kPadGradThreads - 1) / kPadGradThreads;
  geometry.blocks = uint32_t(std::min(blocks, kMostLoopBlocks));
  launch(choice.name, pad_grad_generic_kernel<T>, geometry, target, plan, long_sums, grad, y, sums,
         plan.elements());
}

}  // namespace

void pad_grad(const PadGradPlan& plan, const Choice& choice, const void* grad, void* result,
              const Target& target) {
  if (plan.is_empty()) return;
  visit(plan.dtype, FloatTypes{}, [&]<class T>() {
    const T* const from = static_cast<const T*>(grad);
    T* const y = static_cast<T*>(result);
    if (PadGradKernel(choice.kernel) != PadGradKernel::rows)
      return launch_generic(plan, choice, from, y, target);
    launch(choice.name, pad_grad_rows_kernel<T>, choice.geometry, target, rows_of(plan), from, y);
  });
}

}  // namespace cudml::cuda
