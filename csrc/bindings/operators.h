// The canonical operators as functions of Python objects.
#pragma once

#include <pybind11/pybind11.h>

namespace cudml::bindings {

void bind_operators(pybind11::module_& module);
void bind_directml(pybind11::module_& module);

}  // namespace cudml::bindings
