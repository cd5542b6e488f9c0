// Launches the kernels of padding: bits are moved by size, whatever they mean.
#include <bit>
#include <cstring>

#include "cuda/pad_generic.cuh"
#include "cuda/pad_vectors.cuh"

namespace cudml::cuda {
namespace {

/// The largest power of two that divides both arrays' addresses, at most 256, as when the choice
/// was made.
int64_t alignment_of(const void* x, const void* y) {
  const uintptr_t bits = reinterpret_cast<uintptr_t>(x) | reinterpret_cast<uintptr_t>(y) | 256;
  return int64_t{1} << std::countr_zero(bits);
}

/// The constant, again and again.
Bytes16 constant_of(const PadPlan& widened_plan) {
  Bytes16 constant;
  std::memcpy(constant.v, widened_plan.value.bytes, 8);
  std::memcpy(constant.v + 2, widened_plan.value.bytes, 8);
  return constant;
}

template <class T>
void launch_pad(const PadPlan& plan, const Choice& choice, const void* from, void* to,
                const Target& target) {
  const T* const x = static_cast<const T*>(from);
  T* const y = static_cast<T*>(to);
  const PadKernel kernel = PadKernel(choice.kernel);
  const Bytes16 constant = constant_of(plan);
  T value;
  std::memcpy(&value, &constant, sizeof value);
  if (kernel == PadKernel::generic)
    return launch(choice.name, pad_generic_kernel<T>, choice.geometry, target, plan, x, y, value,
                  pad_elements(plan));
  const PadRows rows = rows_of(kernel, plan);
  if (kernel == PadKernel::row)
    launch(choice.name, pad_row_kernel<T>, choice.geometry, target, rows, x, y, value, constant);
  else if (kernel == PadKernel::flat)
    launch(choice.name, pad_flat_kernel<T>, choice.geometry, target, rows, x, y, value);
  else
    launch(choice.name, pad_strided_kernel<T>, choice.geometry, target, rows, x, y, value);
}

void launch_wide(const PadPlan& plan, const Choice& choice, const void* x, void* y,
                 const Target& target) {
  launch(choice.name, pad_strided_kernel<Bytes16>, choice.geometry, target,
         rows_of(PadKernel::wide, plan), static_cast<const Bytes16*>(x), static_cast<Bytes16*>(y),
         constant_of(plan));
}

}  // namespace

void pad(const PadPlan& plan, const Choice& choice, const void* from, void* y,
         const Target& target) {
  if (pad_elements(plan) == 0) return;
  const void* const x = static_cast<const char*>(from) + plan.x_first * plan.item_size;
  const PadPlan wide = widened(plan, PadKernel(choice.kernel), alignment_of(from, y));
  switch (wide.item_size) {
    case 1: return launch_pad<uint8_t>(wide, choice, x, y, target);
    case 2: return launch_pad<uint16_t>(wide, choice, x, y, target);
    case 4: return launch_pad<uint32_t>(wide, choice, x, y, target);
    case 8: return launch_pad<uint64_t>(wide, choice, x, y, target);
    default: return launch_wide(wide, choice, x, y, target);
  }
}

}  // namespace cudml::cuda
