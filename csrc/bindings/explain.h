// What a plan would do and why, for cudml.explain, and the kernel lists.
#pragma once

#include <pybind11/pybind11.h>

#include "bindings/run.h"
#include "library/explain.h"

namespace cudml::bindings {

using library::Explanation;

/// What an explained call gives instead of its result: a cudml.Explanation.
template <class Plan>
py::object explained(const Call& call, const Plan& plan, const Operands& operands);
py::object to_python(const Call& call, const Explanation& explanation);

/// Kernels of a family, or its paths on the CPU, as (name, (what it needs, ...), gain), first
/// choice first; `gain` is empty where there is none. `device` is "cuda" or "cpu".
py::list kernels(const py::object& family, const py::object& device);

}  // namespace cudml::bindings
