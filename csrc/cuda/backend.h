// The CUDA back end: one function per family. All work is enqueued on a stream; nothing waits.
#pragma once

#include "core/operands.h"
#include "cuda/choose.h"
#include "cuda/device.h"

namespace cudml::cuda {

/// Where work goes: the device is current while its work is enqueued. `workspace` holds the
/// choice's workspace_bytes.
struct Target {
  int device = 0;
  void* stream = nullptr;  // cudaStream_t
  void* workspace = nullptr;
  bool is_rehearsal = false;  // kernels are loaded and nothing is launched; no pointer is read
};

// Pointers address the tensors' first elements; absent tensors are null. Failed launches throw
// cuda::Error with the kernel's name.
void pool(const PoolPlan& plan, const Choice& choice, const void* x, void* y, void* indices,
          const Target& target);
void max_pool_grad(const PoolGradPlan& plan, const Choice& choice, const void* x, const void* grad,
                   void* result, const Target& target);
void average_pool_grad(const PoolGradPlan& plan, const Choice& choice, const void* grad,
                       void* result, const Target& target);
void lp_pool_grad(const PoolGradPlan& plan, const Choice& choice, const void* x, const void* y,
                  const void* grad, void* result, const Target& target);
void pad(const PadPlan& plan, const Choice& choice, const void* x, void* y, const Target& target);
void pad_grad(const PadGradPlan& plan, const Choice& choice, const void* grad, void* result,
              const Target& target);
void unpool(const UnpoolPlan& plan, const Choice& choice, const void* x, const void* indices,
            void* y, const Target& target);
void mvn(const MvnPlan& plan, const Choice& choice, const Operands& operands, const Target& target);
void mvn_grad(const MvnGradPlan& plan, const Choice& choice, const Operands& operands,
              const Target& target);
void statistics(const StatisticsPlan& plan, const Choice& choice, const Operands& operands,
                const Target& target);
void merge(const MergePlan& plan, const Choice& choice, const Operands& operands,
           const Target& target);
void normalize(const NormalizePlan& plan, const Choice& choice, const Operands& operands,
               const Target& target);

/// The facts of a GPU in this machine, asked once. Throws Error where there is none.
Situation situation_of_device(int device);

}  // namespace cudml::cuda
