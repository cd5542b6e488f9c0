// What a plan would do and why, in words: for cudml.explain, for the log, and the kernel lists.
#pragma once

#include <pybind11/pybind11.h>

#include <optional>
#include <string>

#include "bindings/run.h"

namespace cudml::bindings {

struct Explanation {
  std::string kernel, reason;
  int64_t bytes = 0;  // compulsory: every input byte read once, every output byte written once
  int64_t workspace_bytes = 0;
  std::optional<cuda::Geometry> geometry;  // of a GPU
};

// Plan is PoolPlan, PoolGradPlan, PadPlan or MvnPlan.
template <class Plan>
Explanation explain_cpu(const Plan& plan, const cpu::Path<Plan>& path);
template <class Plan>
Explanation explain_cuda(const Plan& plan, const cuda::Situation& situation,
                         const cuda::Choice& choice);

/// What an explained call gives instead of its result: a cudml.Explanation.
template <class Plan>
py::object explained(const Call& call, const Plan& plan, const Operands& operands);
py::object to_python(const Call& call, const Explanation& explanation);

/// Whether CUDML_LOG is "debug".
bool is_logging();

/// One line on standard error.
void log_call(const Call& call, const Explanation& explanation, NamedTensors tensors);

/// Kernels of a family, or its paths on the CPU, as (name, (what it needs, ...), gain), first
/// choice first; `gain` is empty where there is none. `device` is "cuda" or "cpu".
py::list kernels(const py::object& family, const py::object& device);

}  // namespace cudml::bindings
