// Which Python class every C++ exception becomes.
#include "bindings/raise.h"

#include <new>
#include <stdexcept>

#include "core/check.h"
#include "cuda/device.h"

namespace cudml::bindings {
namespace {

/// Raises cudml.CudaError, which is Python's own class, so that every build of this module raises
/// the same one.
void set_cuda_error(const cuda::Error& error) {
  const auto known = [&](bool is_known, auto value) {
    return is_known ? py::object(py::cast(value)) : py::none();
  };
  const py::object type = py::module_::import("cudml._errors").attr("CudaError");
  const py::object raised =
      type(error.what(), known(error.code != 0, error.code), known(!error.name.empty(), error.name),
           known(!error.call.empty(), error.call));
  PyErr_SetObject(type.ptr(), raised.ptr());
}

void set_error() {
  try {
    throw;
  } catch (py::error_already_set& error) {
    error.restore();
  } catch (const py::builtin_exception& error) {
    error.set_error();
  } catch (const TypeError& error) {
    PyErr_SetString(PyExc_TypeError, error.what());
  } catch (const cuda::Error& error) {
    set_cuda_error(error);
  } catch (const std::bad_alloc&) {
    PyErr_NoMemory();
  } catch (const std::invalid_argument& error) {
    PyErr_SetString(PyExc_ValueError, error.what());
  } catch (const std::exception& error) {
    // pybind11 says in its own words that an object could not be allocated; Python's stand already.
    if (PyErr_Occurred()) return;
    PyErr_SetString(PyExc_RuntimeError, error.what());
  }
}

}  // namespace

void set_python_error() noexcept {
  try {
    set_error();
  } catch (py::error_already_set& error) {  // raised while an error was being made
    error.restore();
  } catch (...) {
    PyErr_SetString(PyExc_RuntimeError, "an unknown exception");
  }
}

}  // namespace cudml::bindings
