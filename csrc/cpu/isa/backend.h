// The CPU back end: one function per family, compiled for three instruction sets, chosen once.
#pragma once

#include "ops/mvn.h"
#include "ops/pad.h"
#include "ops/pool.h"
#include "ops/pool_grad.h"

namespace cudml::cpu {

/// Pointers address the tensors' first elements; absent tensors are null.
struct Backend {
  const char* isa;  // "base", "v3" (x86-64-v3) or "v4" (x86-64-v4)
  void (*pool)(const PoolPlan& plan, const void* x, void* y, void* indices);
  void (*max_pool_grad)(const PoolGradPlan& plan, const void* x, const void* grad, void* result,
                        void* workspace);
  void (*average_pool_grad)(const PoolGradPlan& plan, const void* grad, void* result);
  void (*pad)(const PadPlan& plan, const void* x, void* y);
  void (*mvn)(const MvnPlan& plan, const void* x, const void* scale, const void* bias, void* y);
};

namespace base {
extern const Backend backend;
}
namespace v3 {
extern const Backend backend;
}
namespace v4 {
extern const Backend backend;
}

/// The table for this processor, or the one CUDML_CPU_ISA forces. Throws std::invalid_argument
/// where that names an instruction set this processor or this build does not have.
const Backend& backend();

/// Comma-separated names of the instruction sets compiled in, lowest first.
const char* built_instruction_sets();

}  // namespace cudml::cpu
