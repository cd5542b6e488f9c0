// Arrays in and out: as tensors, with the checks that need an array and not only its shape.
#pragma once

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <memory>
#include <optional>
#include <string_view>

#include "bindings/call.h"
#include "bindings/memory.h"
#include "core/layout.h"
#include "core/tensor.h"

namespace cudml::bindings {

namespace py = pybind11;

/// An array as the operators see it. `keep` owns the memory behind `view`: the caller's array, or
/// the copy that D-TEN-7 asks for, once it is made. `footprint` is always of the caller's own
/// memory.
struct Array {
  TensorView view;
  Footprint footprint;
  py::object keep;
  py::object dtype;             // NumPy's, of a NumPy array
  NumpyMemory origin;           // likewise, of the caller's
  py::handle source;            // the array itself where it is another library's
  std::shared_ptr<void> lease;  // of memory that another library exported
  py::object storage;           // torch's, behind the lease
  bool is_copy_due = false;     // `view` is the copy that `make_copy` is yet to make
  bool is_read_only = false;
  bool is_copy = false;       // the exporter copied, so that nobody sees what is written
  bool is_borrowed = false;   // by its type's exchange table, without a lease
  bool is_interface = false;  // by its `__cuda_array_interface__`, without a lease
  bool is_exported = false;   // `keep` is an ExportedMemory that a library is to import
};

/// Whether an output is an input's very memory. One that is copied first has the copy's strides.
inline bool is_same(const Array& output, const Array& input) {
  return !input.is_copy_due && is_alias(output.view, input.view);
}

inline constexpr const char* kTakenTypes =
    "float16, bfloat16, float32, float64, uint8, uint16, uint32, uint64, int8, int16, int32, int64";

/// Element type of a NumPy dtype in native byte order, if the library has it.
std::optional<Dtype> dtype_from_numpy(const py::handle& dtype);
std::optional<Dtype> dtype_named(std::string_view name);

/// `name` is the Python argument, `field` DirectML's name. TypeError for what is no array or has an
/// element type the library lacks. Negative or odd strides and odd bases of NumPy arrays are copied
/// (D-TEN-7), of others refused. Nothing is copied before `make_copy`.
Array input_array(Call& call, const char* field, const char* name, py::handle object);

/// Copies an input that must be, each of its distinct elements once. To be called when a call is
/// accepted.
void make_copy(const char* op, const char* field, const char* name, Array& input);

/// Reads an array that is described by an attribute once more and refuses it where that says
/// something else now: it may run Python code.
void read_again(Call& call, const char* field, const char* name, const Array& array);

/// Refuses an array whose memory the caller's own Python code has moved or freed since it was read.
/// Calls nothing of Python's; to be called after everything that does.
void check_unchanged(const char* op, const char* field, const char* name, const Array& array);

/// The caller's output as it is, its address and strides taken in place. Without strides where
/// they are negative or odd.
Array output_array(Call& call, const char* field, const char* name, py::handle object);

/// Refuses an output of another element type, of other sizes, or with strides that it cannot have.
void check_output(const char* op, const char* field, const char* name, const Array& output,
                  Dtype dtype, const Dims& sizes);

/// Refuses an output whose memory the caller would not see changed.
void check_writable(const char* op, const char* field, const char* name, const Array& output);

/// A new array of the library of `like`, with the strides of `desc`, which are dense. It may be
/// memory for a library that has to be asked to take it: see `finished`.
Array new_array(Call& call, const char* field, const Array& like, const TensorDesc& desc);

/// The result of a call: a new array of `new_array`, once work on it is enqueued.
py::object finished(Call& call, const Array& output);

/// A new NumPy array with exactly the strides of `desc`, which may leave gaps.
py::array strided_array(const py::dtype& dtype, const TensorDesc& desc);

/// A NumPy array that is known to be of `desc`.
Array view_of(py::array array, const TensorDesc& desc);

/// NumPy's dtype object; ml_dtypes is imported for bfloat16 only.
py::object numpy_dtype(Dtype dtype);

}  // namespace cudml::bindings
