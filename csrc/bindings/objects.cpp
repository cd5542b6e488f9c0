// Questions to Python objects that arguments are read by.
#include "bindings/objects.h"

#include <pybind11/numpy.h>

#include "bindings/imported.h"

namespace cudml::bindings {

py::object interned(const char* text) {
  auto made = py::reinterpret_steal<py::object>(PyUnicode_InternFromString(text));
  if (!made) throw py::error_already_set();
  return made;
}

py::object from_numpy(const char* name) { return py::module_::import("numpy").attr(name); }

bool is_bool(py::handle object) {
  if (PyBool_Check(object.ptr())) return true;
  if (PyLong_CheckExact(object.ptr()) || PyFloat_CheckExact(object.ptr())) return false;
  return py::isinstance(object, made_once([] { return from_numpy("bool_"); }));
}

bool is_ascii(py::handle text, const char* ascii) {
  return PyUnicode_CompareWithASCIIString(text.ptr(), ascii) == 0;
}

py::object element_of(py::handle object) {
  const bool is_element =
      py::isinstance<py::array>(object) && py::reinterpret_borrow<py::array>(object).ndim() == 0;
  return is_element ? py::object(object[py::tuple()]) : py::reinterpret_borrow<py::object>(object);
}

bool is_unreal(py::handle object) {
  return py::isinstance(object, made_once([] { return from_numpy("complexfloating"); })) ||
         py::isinstance(object, made_once([] { return from_numpy("timedelta64"); }));
}

bool is_text(py::handle object) {
  return PyUnicode_Check(object.ptr()) || PyBytes_Check(object.ptr()) ||
         PyByteArray_Check(object.ptr()) || PyMemoryView_Check(object.ptr());
}

bool is_number(py::handle object) {
  const PyNumberMethods* methods = Py_TYPE(object.ptr())->tp_as_number;
  return methods && (methods->nb_float || methods->nb_index);
}

bool is_sequence(py::handle object) {
  if (!PySequence_Check(object.ptr()) || is_text(object)) return false;
  if (!PyIndex_Check(object.ptr()) || PySequence_Size(object.ptr()) >= 0) return true;
  const bool is_long = PyErr_ExceptionMatches(PyExc_OverflowError);
  forget_exception();
  return is_long;
}

py::object or_nothing(PyObject* result) {
  if (!result) forget_exception();
  return py::reinterpret_steal<py::object>(result);
}

Py_ssize_t length_of(py::handle sequence) {
  const Py_ssize_t length = PySequence_Size(sequence.ptr());
  if (length >= 0) return length;
  if (!PyErr_ExceptionMatches(PyExc_OverflowError)) throw py::error_already_set();
  PyErr_Clear();
  return PY_SSIZE_T_MAX;
}

py::tuple copy_of(py::handle sequence, Py_ssize_t length) {
  if (PyTuple_CheckExact(sequence.ptr())) return py::reinterpret_borrow<py::tuple>(sequence);
  py::tuple copy(length);
  for (Py_ssize_t i = 0; i < length; ++i) {
    PyObject* entry = PySequence_GetItem(sequence.ptr(), i);
    if (!entry) throw py::error_already_set();
    PyTuple_SET_ITEM(copy.ptr(), i, entry);
  }
  return copy;
}

py::object index_of(py::handle object) {
  if (is_bool(object) || !PyIndex_Check(object.ptr())) return {};
  return py::reinterpret_steal<py::object>([&] {
    PyObject* index = PyNumber_Index(object.ptr());
    if (!index && PyErr_ExceptionMatches(PyExc_TypeError))
      PyErr_Clear();
    else if (!index)
      throw py::error_already_set();  // raised by the caller's own __index__
    return index;
  }());
}

}  // namespace cudml::bindings
