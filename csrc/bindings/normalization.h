// Mean-variance normalization as a function of Python objects.
#pragma once

#include "bindings/call.h"

namespace cudml::bindings {

py::object mean_variance_normalization(Call& call, py::handle x, py::handle scale, py::handle bias,
                                       py::handle axes, py::handle use_mean,
                                       py::handle use_variance, py::handle epsilon,
                                       py::handle fused, py::handle return_statistics,
                                       py::handle out);

}  // namespace cudml::bindings
