// C++ exceptions as Python's.
#pragma once

#include <cxxabi.h>
#include <pybind11/pybind11.h>
#include <unistd.h>

#include <utility>

#include "cpu/simd/float_state.h"

namespace cudml::bindings {

namespace py = pybind11;

/// Sets Python's error from the exception that is being handled.
void set_python_error() noexcept;

/// Forgets what is being raised; an interrupt is the caller's own and goes on.
inline void forget_exception() {
  if (!PyErr_ExceptionMatches(PyExc_Exception)) throw py::error_already_set();
  PyErr_Clear();
}

/// What `body` gives. A daemon thread that the interpreter ends inside of it waits here for the end
/// of the process, as in Unlocked.
template <class Body>
auto unless_ended(const Body& body) {
  try {
    return body();
  } catch (const abi::__forced_unwind&) {
    for (;;) pause();
  }
}

/// What a function of Python code gives. A daemon thread that is ended there has no interpreter
/// lock: it waits before anything is dropped that it holds.
template <class... Arguments>
py::object called(const py::object& function, Arguments&&... arguments) {
  const py::tuple held = py::make_tuple(std::forward<Arguments>(arguments)...);
  PyObject* const result =
      unless_ended([&] { return PyObject_CallObject(function.ptr(), held.ptr()); });
  if (!result) throw py::error_already_set();
  return py::reinterpret_steal<py::object>(result);
}

/// `unless_ended`, as the interpreter takes it from a function; null with Python's error set where
/// it throws. All of it runs under one floating-point state.
template <class Body>
PyObject* result_of(const Body& body) noexcept {
  const FloatState state;
  try {
    return unless_ended([&] { return py::object(body()).release().ptr(); });
  } catch (...) {
    set_python_error();
    return nullptr;
  }
}

}  // namespace cudml::bindings
