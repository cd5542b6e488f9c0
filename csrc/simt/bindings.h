// What only cudml._simt offers to Python: which kernels there are, and which have run.
#pragma once

#include <pybind11/pybind11.h>

namespace cudml::simt {

void bind_simt(pybind11::module_& module);

}  // namespace cudml::simt
