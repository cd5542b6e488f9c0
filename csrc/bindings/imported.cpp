// Arrays from descriptions, whichever protocol they came by.
#include "bindings/imported.h"

namespace cudml::bindings {

Array array_of(const Argument& at, const Imported& in, py::handle object) {
  check(in.rank >= 1 && in.rank <= kMaxRank, at.call.op, ": ", at.field, ".DimensionCount is ",
        in.rank, "; it must be between 1 and ", kMaxRank);
  const auto item = int64_t(size_of(in.dtype));
  Array result;
  result.view.dtype = in.dtype;
  bool is_empty = false;
  for (int d = 0; d < in.rank; ++d) {
    at.require(in.shape[d] >= 0, "has a negative size, ", in.shape[d]);
    result.view.sizes.push_back(in.shape[d]);
    is_empty |= in.shape[d] == 0;
  }
  result.view.strides = Dims::filled(int(in.rank), 0);
  if (!in.strides && !is_empty) {
    check_extent(at.call.op, at.field, result.view);  // before sizes are multiplied
    result.view.strides = packed_strides(result.view.sizes);
  }
  for (int d = 0; d < in.rank; ++d) {
    if (in.shape[d] <= 1 || is_empty) continue;
    if (in.strides) result.view.strides[d] = in.strides[d];
    at.require(result.view.strides[d] >= 0, "has a negative stride, ", result.view.strides[d],
               " elements in dimension ", d, "; copy it first");
  }
  at.require(in.address % uintptr_t(item) == 0, "starts at an address that is no multiple of its ",
             item, "-byte elements; copy it first");
  at.require(in.address || is_empty, "has no memory");
  check_extent(at.call.op, at.field, result.view);
  uintptr_t end = in.address;  // of its last element; sizes and strides are within 2^62 bytes
  for (int d = 0; d < in.rank && !is_empty; ++d)
    end += uintptr_t((in.shape[d] - 1) * result.view.strides[d] * item);
  at.require(in.address <= INT64_MAX && end <= INT64_MAX, "has an address that no memory has");
  result.view.data = reinterpret_cast<void*>(in.address);
  result.footprint = footprint_of(result.view);
  result.is_read_only = in.is_read_only;
  result.keep = py::reinterpret_borrow<py::object>(object);
  result.source = object;
  return result;
}

void refuse_element_type(const Argument& at, const std::string& found) {
  refuse_type(at.call.op, ": ", at.field, ".DataType (", at.name, ") is ", shown(found),
              "; it must be one of ", kTakenTypes);
}

/// An attribute, or nothing where there is none; other exceptions are the caller's own.
py::object attribute(py::handle object, const char* name) {
  PyObject* found = PyObject_GetAttrString(object.ptr(), name);
  if (!found && !PyErr_ExceptionMatches(PyExc_AttributeError)) throw py::error_already_set();
  if (!found) PyErr_Clear();
  return py::reinterpret_steal<py::object>(found);
}

}  // namespace cudml::bindings
