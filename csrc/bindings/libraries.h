// What only an array's own library can do, asked of cudml._libraries.
#pragma once

#include <pybind11/pybind11.h>

#include "bindings/call.h"
#include "core/tensor.h"

namespace cudml::bindings {

/// The stream that is current on a device in the library of `array`; the legacy default one where
/// the library is not known.
void* current_stream(py::handle array, int device);

/// The capsule of array.__dlpack__(), exported for the call's stream.
py::object export_capsule(const Call& call, Place place, py::handle array);

/// An array of `like`'s library, on the call's device and with exactly these strides. TypeError
/// where the library is not known or lacks the element type.
py::object allocate_like(const Call& call, py::handle like, const TensorDesc& desc);

/// (element type, shape, strides in elements or None, address or 0, CUDA device or -1) of anything
/// that has a shape and a type; None of anything else.
py::object describe_array(py::handle array);

}  // namespace cudml::bindings
