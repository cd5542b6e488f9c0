// The gradients of normalization as functions of Python objects.
#pragma once

#include "bindings/call.h"

namespace cudml::bindings {

py::object mean_variance_normalization_grad(Call& call, py::handle x, py::handle grad,
                                            py::handle scale, py::handle bias, py::handle axes,
                                            py::handle use_mean, py::handle use_variance,
                                            py::handle epsilon, py::handle fused, py::handle mean,
                                            py::handle variance, py::handle outputs,
                                            py::handle out);

py::object normalize_grad_sums(Call& call, py::handle x, py::handle grad, py::handle mean,
                               py::handle variance, py::handle scale, py::handle bias,
                               py::handle axes, py::handle epsilon, py::handle fused,
                               py::handle dtype, py::handle out);

py::object normalize_grad(Call& call, py::handle x, py::handle grad, py::handle mean,
                          py::handle variance, py::handle scale, py::handle bias, py::handle count,
                          py::handle sums, py::handle epsilon, py::handle fused, py::handle outputs,
                          py::handle out);

}  // namespace cudml::bindings
