// Python types of C++ objects, made by hand: instances for which there is no memory are a
// MemoryError, where a generic binding writes through a null pointer.
#pragma once

#include <pybind11/pybind11.h>

#include <memory>
#include <new>
#include <utility>

#ifndef CUDML_MODULE
#define CUDML_MODULE _core
#endif
#define CUDML_TEXT_OF(name) #name
#define CUDML_TEXT(name) CUDML_TEXT_OF(name)
#define CUDML_TYPE_NAME(name) "cudml." CUDML_TEXT(CUDML_MODULE) "." name

namespace cudml::bindings {

namespace py = pybind11;

/// An instance. `call` is null where it cannot be called.
template <class T>
struct Boxed {
  PyObject_HEAD vectorcallfunc call;
  std::shared_ptr<T> value;
};

template <class T>
const std::shared_ptr<T>& value_of(PyObject* self) {
  return reinterpret_cast<Boxed<T>*>(self)->value;
}

/// The slot Py_tp_dealloc.
template <class T>
void deallocate_boxed(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  reinterpret_cast<Boxed<T>*>(self)->value.~shared_ptr();
  type->tp_free(self);
  Py_DECREF(type);  // instances of types made at run time own a reference
}

/// A new type for instances that `boxed` alone makes.
template <class T>
PyObject* boxed_type(const char* name, PyType_Slot* slots, unsigned flags = 0) {
  PyType_Spec spec{name, int(sizeof(Boxed<T>)), 0,
                   unsigned(Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION) | flags, slots};
  PyObject* type = PyType_FromSpec(&spec);
  if (!type) throw py::error_already_set();
  return type;
}

/// A value as an instance of its type.
template <class T>
py::object boxed(PyObject* type, std::shared_ptr<T> value, vectorcallfunc call = nullptr) {
  auto* kind = reinterpret_cast<PyTypeObject*>(type);
  PyObject* self = kind->tp_alloc(kind, 0);
  if (!self) throw py::error_already_set();
  auto* box = reinterpret_cast<Boxed<T>*>(self);
  box->call = call;
  new (&box->value) std::shared_ptr<T>(std::move(value));
  return py::reinterpret_steal<py::object>(self);
}

}  // namespace cudml::bindings
