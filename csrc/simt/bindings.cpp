// What only cudml._simt offers to Python: which kernels there are, and which have run.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include "executor.h"
#include "simt/bindings.h"

namespace cudml::simt {

void bind_simt(pybind11::module_& module) {
  module.def("all_kernels", &all_kernels);
  module.def("launched_kernels", &launched_kernels);
}

}  // namespace cudml::simt
