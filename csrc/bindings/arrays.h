// NumPy arrays in and out: as tensors, with the checks that need an array and not only its shape.
#pragma once

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <optional>

#include "core/layout.h"
#include "core/tensor.h"

namespace cudml::bindings {

namespace py = pybind11;

/// An array as the operators see it. `keep` owns the memory behind `view`: the caller's array, or
/// the copy that D-TEN-7 asks for. `footprint` is always of the caller's own memory.
struct Array {
  TensorView view;
  Footprint footprint;
  py::object keep;
  py::object dtype;  // NumPy's
};

/// Element type of a NumPy dtype in native byte order, if the library has it.
std::optional<Dtype> dtype_from_numpy(const py::handle& dtype);

/// `name` is the Python argument, `field` DirectML's name. TypeError for what is no array or has an
/// element type the library lacks. Negative or odd strides and odd bases are copied (D-TEN-7).
Array input_array(const char* op, const char* field, const char* name, py::handle object);

/// The caller's output: an array of exactly this type and these sizes, writable, in place.
Array output_array(const char* op, const char* field, const char* name, py::handle object,
                   Dtype dtype, const Dims& sizes);

/// A new NumPy array with the strides of `desc`, which are dense.
Array new_array(const py::object& dtype, const TensorDesc& desc);

/// NumPy's dtype object; ml_dtypes is imported for bfloat16 only.
py::object numpy_dtype(Dtype dtype);

}  // namespace cudml::bindings
