// What only cudml._simt offers to Python: its kernels, and the stand-in runtime seen from outside.
#pragma once

#include <pybind11/pybind11.h>

namespace cudml::simt {

void bind_simt(pybind11::module_& module);

}  // namespace cudml::simt
