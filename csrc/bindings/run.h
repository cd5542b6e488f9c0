// Work on either back end: what each one is handed, and where a plan goes.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "bindings/call.h"
#include "cuda/backend.h"

namespace cudml::bindings {

/// First elements of a call's tensors, null where absent. `second` is a gradient or the scale,
/// `third` the bias.
struct Operands {
  const void *x = nullptr, *second = nullptr, *third = nullptr;
  void *y = nullptr, *indices = nullptr;

  /// The largest power of two that divides every address, at most 256.
  int64_t alignment() const {
    uintptr_t bits = 256;
    for (const void* p :
         {x, second, third, static_cast<const void*>(y), static_cast<const void*>(indices)})
      bits |= reinterpret_cast<uintptr_t>(p);
    return int64_t(bits & (~bits + 1));
  }
};

/// A tensor under DirectML's name, as logs show it.
struct NamedTensor {
  const char* field;
  const TensorDesc* desc;
};
using NamedTensors = std::span<const NamedTensor>;

// Plan is PoolPlan, PoolGradPlan, PadPlan or MvnPlan in all that follows.

/// Runs a plan where the call's arrays live, without the interpreter lock; on a GPU it is enqueued.
/// Workspace is taken for this call.
template <class Plan>
void run(const Call& call, const Plan& plan, const Operands& operands, NamedTensors tensors);

/// Scratch memory that the CPU's loops need for a plan.
int64_t cpu_workspace_bytes(const PoolPlan& plan);
int64_t cpu_workspace_bytes(const PoolGradPlan& plan);
int64_t cpu_workspace_bytes(const PadPlan& plan);
int64_t cpu_workspace_bytes(const MvnPlan& plan);

void run_cpu(const PoolPlan& plan, const Operands& operands, void* workspace);
void run_cpu(const PoolGradPlan& plan, const Operands& operands, void* workspace);
void run_cpu(const PadPlan& plan, const Operands& operands, void* workspace);
void run_cpu(const MvnPlan& plan, const Operands& operands, void* workspace);

void run_cuda(const PoolPlan& plan, const cuda::Choice& choice, const Operands& operands,
              const cuda::Target& target);
void run_cuda(const PoolGradPlan& plan, const cuda::Choice& choice, const Operands& operands,
              const cuda::Target& target);
void run_cuda(const PadPlan& plan, const cuda::Choice& choice, const Operands& operands,
              const cuda::Target& target);
void run_cuda(const MvnPlan& plan, const cuda::Choice& choice, const Operands& operands,
              const cuda::Target& target);

}  // namespace cudml::bindings
