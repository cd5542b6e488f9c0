// Arrays in and out: as tensors, with the checks that need an array and not only its shape.
#pragma once

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <memory>
#include <optional>
#include <string_view>

#include "bindings/call.h"
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
  py::object dtype;             // NumPy's, of a NumPy array
  py::handle source;            // the array itself where it is another library's
  std::shared_ptr<void> lease;  // of memory that another library exported
  bool is_read_only = false;
  bool is_copy = false;  // the exporter copied, so that nobody sees what is written
};

inline constexpr const char* kTakenTypes =
    "float16, bfloat16, float32, float64, uint8, uint16, uint32, uint64, int8, int16, int32, int64";

/// Element type of a NumPy dtype in native byte order, if the library has it.
std::optional<Dtype> dtype_from_numpy(const py::handle& dtype);
std::optional<Dtype> dtype_named(std::string_view name);

/// `name` is the Python argument, `field` DirectML's name. TypeError for what is no array or has an
/// element type the library lacks. Negative or odd strides and odd bases of NumPy arrays are copied
/// (D-TEN-7), of others refused.
Array input_array(Call& call, const char* field, const char* name, py::handle object);

/// The caller's output: an array of exactly this type and these sizes, writable, in place.
Array output_array(Call& call, const char* field, const char* name, py::handle object, Dtype dtype,
                   const Dims& sizes);

/// A new array of the library of `like`, with the strides of `desc`, which are dense.
Array new_array(Call& call, const char* field, const Array& like, const TensorDesc& desc);

/// A new NumPy array with exactly the strides of `desc`, which may leave gaps.
py::array strided_array(const py::dtype& dtype, const TensorDesc& desc);

/// A NumPy array that is known to be of `desc`.
Array view_of(py::array array, const TensorDesc& desc);

/// NumPy's dtype object; ml_dtypes is imported for bfloat16 only.
py::object numpy_dtype(Dtype dtype);

}  // namespace cudml::bindings
