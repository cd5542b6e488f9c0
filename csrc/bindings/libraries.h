// What only an array's own library can do, asked of cudml._libraries.
#pragma once

#include <pybind11/pybind11.h>

#include <span>
#include <string>

#include "bindings/call.h"
#include "core/tensor.h"

namespace cudml::bindings {

/// What the library of an array is called, empty where it is not known; without an array, NumPy.
std::string library_name(py::handle array);

/// Why the library of an array knows that it cannot be taken, empty where it knows of nothing.
std::string reason_to_refuse(const char* op, py::handle array);

/// Tells the library of an output that it is written, where it wants to know.
void tell_written(py::handle array);

/// Whether nobody may write into the arrays of a library, whatever they are exported as.
bool is_immutable(py::handle array);

/// Whether the arrays of a library are row-major, whatever other arrays are.
bool is_row_major(py::handle array);

/// The stream that is current on a device in the library of `array`; the legacy default one where
/// the library is not known.
void* current_stream(py::handle array, int device);

/// Memory of the library of `like` for work on the call's stream, and its address; nothing where
/// the library gives none. To be dropped once the work is enqueued.
struct LibraryScratch {
  py::object memory;
  void* address = nullptr;
};
LibraryScratch scratch_like(const Call& call, py::handle like, int64_t bytes);

/// Tells the library of these arrays that the call's stream uses their memory, where that is not
/// the library's own; without it, memory of arrays that are dropped early may be handed out too
/// soon.
void tell_used(const Call& call, std::span<const py::handle> arrays);

/// The capsule of array.__dlpack__(), exported for the call's stream.
py::object export_capsule(const Call& call, Place place, py::handle array);

/// An array of `like`'s library, on the call's device and with exactly these strides; None where
/// the library imports results instead. TypeError where it does neither or lacks the element type.
py::object allocate_like(const Call& call, py::handle like, const TensorDesc& desc);

/// The array that `like`'s library makes of exported memory.
py::object import_like(const Call& call, const TensorDesc& desc, py::handle like,
                       const py::object& memory);

/// (element type, shape, strides in elements or None, address or 0, CUDA device or -1) of anything
/// that has a shape and a type; None of anything else.
py::object describe_array(py::handle array);

}  // namespace cudml::bindings
