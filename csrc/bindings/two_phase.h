// Normalization in two phases as functions of Python objects.
#pragma once

#include "bindings/call.h"

namespace cudml::bindings {

py::object normalization_statistics(Call& call, py::handle x, py::handle axes, py::handle use_mean,
                                    py::handle dtype, py::handle out);

py::object merge_statistics(Call& call, py::handle a, py::handle b, py::handle out);

py::object normalize(Call& call, py::handle x, py::handle mean, py::handle variance,
                     py::handle scale, py::handle bias, py::handle epsilon, py::handle fused,
                     py::handle out);

}  // namespace cudml::bindings
