// What a plan would do and why, in words.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "core/tensor.h"
#include "cpu/isa/paths.h"
#include "cuda/choose.h"
#include "library/place.h"

namespace cudml::library {

struct Explanation {
  std::string kernel, reason;
  int64_t bytes = 0;  // compulsory: every input byte read once, every output byte written once
  int64_t workspace_bytes = 0;
  std::optional<cuda::Geometry> geometry;  // of a GPU
};

/// Scratch memory that the CPU's loops need for a plan.
template <class Plan>
int64_t cpu_workspace_bytes(const Plan&) {
  return 0;
}
inline int64_t cpu_workspace_bytes(const PoolGradPlan& plan) { return plan.workspace_bytes; }
inline int64_t cpu_workspace_bytes(const PadGradPlan& plan) { return plan.workspace_bytes(); }

template <class Plan>
Explanation explain_cpu(const Plan& plan, const cpu::Path<Plan>& path);
template <class Plan>
Explanation explain_cuda(const Plan& plan, const cuda::Situation& situation,
                         const cuda::Choice& choice);

/// A tensor under DirectML's name, as logs show it.
struct NamedTensor {
  const char* field;
  const TensorDesc* desc;
};
using NamedTensors = std::span<const NamedTensor>;

/// Whether CUDML_LOG is "debug".
bool is_logging();

/// One line about a call on standard error.
void log_call(const char* op, Place place, void* stream, const Explanation& explanation,
              NamedTensors tensors);

}  // namespace cudml::library
