// Checks of a caller's workspace.
#include "bindings/workspace.h"

#include <string_view>
#include <utility>

#include "bindings/exchange.h"
#include "bindings/imported.h"
#include "bindings/libraries.h"
#include "core/check.h"
#include "library/compiled.h"

namespace cudml::bindings {
namespace {

constexpr const char* kChanged =
    ": workspace has been changed by Python code that ran while the call read its arguments";

bool is_packed(const TensorView& view) {
  const Dims packed = packed_strides(view.sizes);
  for (int d = 0; d < view.rank(); ++d)
    if (view.sizes[d] > 1 && view.strides[d] != packed[d]) return false;
  return true;
}

/// Whether writing plain bytes would overwrite references or pointers.
bool holds_pointers(py::handle object) {
  const py::handle exporter = exporter_of(object);  // which knows more than a format's letters tell
  if (py::isinstance<py::array>(exporter))
    return py::cast<bool>(py::reinterpret_borrow<py::array>(exporter).dtype().attr("hasobject"));
  Py_buffer described;
  if (PyObject_GetBuffer(object.ptr(), &described, PyBUF_FORMAT | PyBUF_ANY_CONTIGUOUS) != 0) {
    forget_exception();  // elements without a format are no references
    return false;
  }
  const std::string_view format = described.format ? described.format : "B";
  const bool found = format.find_first_of("OP&zZX") != std::string_view::npos;
  PyBuffer_Release(&described);
  return found;
}

}  // namespace

Workspace::Workspace(Call& call, py::handle object, int64_t bytes) {
  if (object.is_none()) return;
  const bool has_buffer = !call.place.is_cuda() && PyObject_CheckBuffer(object.ptr());
  if (call.place.is_cuda() || (!has_buffer && attribute(object, "__dlpack__")))
    take_array(call, object, bytes);
  else
    take_buffer(call, object, bytes);
  is_given_ = true;
}

Workspace::~Workspace() {
  if (is_buffer_held_) PyBuffer_Release(&buffer_);
}

void Workspace::take_buffer(Call& call, py::handle object, int64_t bytes) {
  const char* op = call.op;
  check_type(PyObject_CheckBuffer(object.ptr()), op,
             ": workspace is no array; it must be a writable contiguous one of at least ", bytes,
             " bytes");
  check_type(!holds_pointers(object), op,
             ": workspace holds objects or pointers; it must be a writable contiguous array of "
             "numbers, of at least ",
             bytes, " bytes");
  const py::handle exporter = exporter_of(object);
  check(call.remembered.is_unchanged(exporter), op, kChanged);
  if (PyObject_GetBuffer(object.ptr(), &buffer_, PyBUF_WRITABLE) != 0) {
    forget_exception();
    refuse(op, ": workspace is read-only or not contiguous; it must be a writable contiguous ",
           "array of at least ", bytes, " bytes");
  }
  const auto given = buffer_.len;
  const auto address = reinterpret_cast<uintptr_t>(buffer_.buf);
  const uintptr_t alignment = library::workspace_alignment(call.place);
  is_buffer_held_ = given >= bytes && address % alignment == 0;
  if (!is_buffer_held_) PyBuffer_Release(&buffer_);
  check(given >= bytes, op, ": workspace has ", given, " bytes; it must have at least ", bytes);
  check(is_buffer_held_, op, ": workspace starts at an odd address; it must be a multiple of ",
        alignment);
  data_ = buffer_.buf;
  bytes_ = given;
  if (py::isinstance<py::array>(exporter))
    memory_ = NumpyMemory(py::reinterpret_borrow<py::array>(exporter));
}

void Workspace::tell_written() const {
  if (array_.source) bindings::tell_written(array_.source);
}

void Workspace::pin(Pins& pins) const {
  if (is_buffer_held_) pins.add(exporter_of(buffer_.obj));
  if (array_.keep) pins.add(array_.keep);
}

void Workspace::read_again(Call& call) const {
  bindings::read_again(call, "workspace", "workspace", array_);
}

void Workspace::check_unchanged(const char* op) const {
  check(!memory_ || memory_.is_unchanged(), op, kChanged);
  bindings::check_unchanged(op, "workspace", "workspace", array_);
}

void Workspace::take_array(Call& call, py::handle object, int64_t bytes) {
  const char* op = call.op;
  call.may_mix = true;
  if (py::isinstance<py::array>(object)) call.settle({}, "workspace", "workspace");
  array_ = foreign_array(call, "workspace", "workspace", object);
  check(!array_.is_read_only && !array_.is_copy && is_packed(array_.view), op,
        ": workspace is read-only or not contiguous; it must be a writable contiguous array of at "
        "least ",
        bytes, " bytes");
  bytes_ = count(array_.view.sizes) * int64_t(size_of(array_.view.dtype));
  check(bytes_ >= bytes, op, ": workspace has ", bytes_, " bytes; it must have at least ", bytes);
  data_ = array_.view.data;
  const uintptr_t alignment = library::workspace_alignment(call.place);
  check(reinterpret_cast<uintptr_t>(data_) % alignment == 0, op,
        ": workspace starts at an odd address; it must be a multiple of ", alignment);
}

}  // namespace cudml::bindings
