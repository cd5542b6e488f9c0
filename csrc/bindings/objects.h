// Questions to Python objects that arguments are read by.
#pragma once

#include <pybind11/pybind11.h>

namespace cudml::bindings {

namespace py = pybind11;

/// What `make` gives, kept for the life of the process. It may let other threads run, as an import
/// does: behind the initializer of a static variable they would wait with the interpreter lock.
template <class Make>
py::handle made_once(const Make& make) {
  static PyObject* kept = nullptr;
  if (kept) return kept;
  py::object made = make();
  if (!kept) kept = made.release().ptr();  // unless another thread was first
  return kept;
}

/// A str for the name of an attribute or keyword; throws where there is no memory for it.
py::object interned(const char* text);

/// Something of NumPy's.
py::object from_numpy(const char* name);

bool is_bool(py::handle object);

/// Whether a str is exactly this ASCII text.
bool is_ascii(py::handle text, const char* ascii);

/// The element of a NumPy array without dimensions, which tells its kind; any other object itself.
py::object element_of(py::handle object);

/// NumPy's scalars that would drop a part of themselves when asked for a float: complex ones the
/// imaginary part, durations the unit.
bool is_unreal(py::handle object);

/// Sequences of characters and raw bytes, which nobody means as numbers.
bool is_text(py::handle object);

/// Whether float() would ask the object itself: of buffers it reads the bytes as digits.
bool is_number(py::handle object);

/// An ndarray has __index__ whatever its rank, so a length decides.
bool is_sequence(py::handle object);

/// Calls a C API function that returns a new reference; a Python error becomes an empty object.
py::object or_nothing(PyObject* result);

/// How many entries a sequence says it has, which may be more than fit into memory; as many as
/// there are addresses where they are more than these.
Py_ssize_t length_of(py::handle sequence);

/// A private copy: the caller's list may change while __index__ runs. A tuple cannot.
py::tuple copy_of(py::handle sequence, Py_ssize_t length);

/// __index__ of anything but a bool; an empty object where there is none.
py::object index_of(py::handle object);

}  // namespace cudml::bindings
