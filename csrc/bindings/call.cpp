// Places and streams of calls.
#include "bindings/call.h"

#include "bindings/imported.h"
#include "bindings/libraries.h"
#include "bindings/text.h"
#include "cuda/backend.h"

namespace cudml::bindings {
namespace {

/// The handle in what __cuda_stream__ gives: a method's or a property's (version, handle).
py::object protocol_handle(const char* op, py::handle stream) {
  py::object pair = stream.attr("__cuda_stream__");
  if (PyCallable_Check(pair.ptr())) pair = pair();
  const bool is_pair = PyTuple_Check(pair.ptr()) && PyTuple_GET_SIZE(pair.ptr()) == 2;
  check_type(is_pair, op, ": stream has a __cuda_stream__ that gives ", text_of(pair),
             "; it must be a pair of version and handle");
  const auto known = py::reinterpret_borrow<py::tuple>(pair);
  check_type(PyLong_Check(py::object(known[0]).ptr()) && py::object(known[0]).equal(py::int_(0)),
             op, ": stream follows version ", text_of(known[0]),
             " of the __cuda_stream__ protocol; only version 0 is known");
  return known[1];
}

void* stream_of(const char* op, py::handle argument) {
  py::object number = py::reinterpret_borrow<py::object>(argument);
  if (!PyLong_Check(argument.ptr()) && attribute(argument, "__cuda_stream__"))
    number = protocol_handle(op, argument);
  const bool is_integer = PyIndex_Check(number.ptr()) && !PyBool_Check(number.ptr());
  check_type(is_integer, op, ": stream is ", text_of(argument), " (", type_name(argument),
             "); it must be None, an int or an object with __cuda_stream__");
  const auto index = py::reinterpret_steal<py::object>(PyNumber_Index(number.ptr()));
  if (!index) throw py::error_already_set();
  const auto value = PyLong_AsUnsignedLongLong(index.ptr());
  if (PyErr_Occurred()) {
    PyErr_Clear();
    refuse(op, ": stream is ", text_of(argument), "; it must be 0, 1, 2 or a stream's handle");
  }
  return reinterpret_cast<void*>(value == 1 ? 0 : value);  // 0 and 1: the legacy default stream
}

}  // namespace

Call::Call(const char* op_name, py::handle stream)
    : op(op_name), forced_kernel(library::check_environment(op)), stream_argument_(stream) {}

Call::Call(const char* op_name, py::handle stream, Place where)
    : op(op_name), place(where), stream_argument_(stream), is_settled_(true) {}

void Call::explain_for(py::handle device) {
  is_explained = true;
  if (device.is_none()) return;
  check_type(py::isinstance<py::str>(device), op, ": device is ", text_of(device),
             "; it must be a string: \"cpu\", \"cuda\", \"cuda:<number>\" or an architecture such "
             "as \"sm_90\"");
  device_name = utf8(device);
  check(shown(device_name) == device_name, op, ": device is ", text_of(device),
        "; no device and no architecture has such a name");
  is_place_forced = true;
  try {
    const auto known = library::place_named(device_name);
    if (known && known->is_cuda()) situation = cuda::situation_of_device(known->device);
    if (known) device_name = name_of(*known);
    if (!known) situation = cuda::situation_of_architecture(op, device_name);
  } catch (const cuda::Error& error) {
    throw error.prefixed(join(op, ": device is \"", device_name, "\"; "));
  }
}

void Call::check_place(Place where, const char* field, const char* name) const {
  if (where == place) return;
  const std::string found = join(op, ": ", field, " (", name, ") is on ", name_of(where));
  if (first_field_)
    refuse(found, " and ", first_field_, " (", first_name_, ") on ", name_of(place),
           "; all arrays of a call must be on one device");
  refuse(found, "; the operator is compiled for ", name_of(place));
}

void Call::check_library(const char* field, const char* name, py::handle array) const {
  if (may_mix || (!array && !library) ||
      (array && library && Py_TYPE(array.ptr()) == Py_TYPE(library.ptr())))
    return;
  const std::string here = library_name(array), first = library_name(library);
  check_type(here.empty() || first.empty() || here == first, op, ": ", field, " (", name,
             ") is an array of ", here, " and ", first_field_, " (", first_name_, ") of ", first,
             "; all arrays of a call must be of one library");
}

void Call::settle(Place where, const char* field, const char* name, py::handle array) {
  if (is_place_forced) return;
  if (!is_settled_) place = where;
  is_settled_ = true;
  check_place(where, field, name);
  if (first_field_) return check_library(field, name, array);
  first_field_ = field;
  first_name_ = name;
  library = array;
  if (place.is_cuda() && !is_explained) find_stream();
}

void Call::find_stream() {
  try {
    cuda::situation_of_device(place.device);
  } catch (const cuda::Error& error) {
    throw error.prefixed(
        join(op, ": ", first_field_ ? first_field_ : "an array", " is on ", name_of(place), "; "));
  }
  if (stream_argument_.is_none())
    stream = current_stream(library, place.device);
  else
    stream = stream_of(op, stream_argument_);
}

void Call::check_stream() const {
  if (!place.is_cuda())
    check(stream_argument_.is_none() || is_explained, op, ": stream is ", text_of(stream_argument_),
          "; with CPU arrays it must be None");
}

}  // namespace cudml::bindings
