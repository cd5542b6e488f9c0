// What Python objects are called in error messages.
#pragma once

#include <pybind11/pybind11.h>

#include <cstring>
#include <ostream>
#include <string>

#include "bindings/raise.h"
#include "core/check.h"
#include "core/shown.h"

namespace cudml::bindings {

namespace py = pybind11;

/// A str as UTF-8; what UTF-8 cannot hold is escaped.
inline std::string utf8(py::handle text) {
  const auto bytes = py::reinterpret_steal<py::bytes>(
      PyUnicode_AsEncodedString(text.ptr(), "utf-8", "backslashreplace"));
  if (!bytes) throw py::error_already_set();
  return std::string(bytes);
}

/// Text about an object that is made when it is written and not before: most checks pass. The
/// object must still be there then.
class LazyText {
 public:
  using Make = std::string (*)(py::handle object);
  LazyText(py::handle object, Make make) : object_(object), make_(make) {}
  operator std::string() const { return make_(object_); }
  friend std::ostream& operator<<(std::ostream& out, const LazyText& text) {
    return out << text.make_(text.object_);
  }

 private:
  py::handle object_;
  Make make_;
};

inline LazyText type_name(py::handle object) {
  return {object, [](py::handle o) {
            const char* full_name = Py_TYPE(o.ptr())->tp_name;
            const char* dot = std::strrchr(full_name, '.');
            return shown(dot ? dot + 1 : full_name);
          }};
}

/// "an array of shape (2, 3)" of what has a shape, or nothing.
inline std::string array_text(py::handle object) {
  const auto shape =
      py::reinterpret_steal<py::object>(PyObject_GetAttrString(object.ptr(), "shape"));
  if (!shape) return forget_exception(), "";
  if (!PyTuple_Check(shape.ptr())) return "";
  const auto sizes = py::reinterpret_steal<py::object>(PySequence_Tuple(shape.ptr()));
  if (!sizes) throw py::error_already_set();
  return join("an array of shape ", shown(utf8(py::repr(sizes))));
}

/// repr(), cut where it is long, but of arrays of several lines their shape; of an object without
/// one (an int of 5000 digits), its type.
inline LazyText text_of(py::handle object) {
  return {object, [](py::handle o) -> std::string {
            constexpr Py_ssize_t kLongest = 160;  // characters
            const auto text = py::reinterpret_steal<py::object>(PyObject_Repr(o.ptr()));
            if (!text) {
              forget_exception();
              return join("a value of type ", type_name(o));
            }
            const Py_ssize_t length = PyUnicode_GET_LENGTH(text.ptr());
            if (length > kLongest || PyUnicode_FindChar(text.ptr(), '\n', 0, length, 1) >= 0)
              if (const std::string array = array_text(o); !array.empty()) return array;
            const auto start =
                py::reinterpret_steal<py::object>(PyUnicode_Substring(text.ptr(), 0, kLongest));
            if (!start) throw py::error_already_set();
            return shown(utf8(start)) + (length > kLongest ? "…" : "");
          }};
}

}  // namespace cudml::bindings
