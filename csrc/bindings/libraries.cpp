// Calls into cudml._libraries, which is imported when the first foreign array is seen, and into
// cudml._description.
#include "bindings/libraries.h"

#include <utility>

#include "bindings/imported.h"
#include "bindings/objects.h"
#include "bindings/raise.h"
#include "bindings/text.h"
#include "cuda/device.h"

namespace cudml::bindings {
namespace {

constexpr uintptr_t kPerThreadStream = 2;

py::object function(const char* name) {
  return made_once([] { return py::module_::import("cudml._libraries"); }).attr(name);
}

py::tuple tuple_of(const Dims& dims) {
  py::tuple result(size_t(dims.rank));
  for (int d = 0; d < dims.rank; ++d) result[size_t(d)] = py::int_(dims[d]);
  return result;
}

py::object device_number(Place place) {
  return place.is_cuda() ? py::object(py::int_(place.device)) : py::none();
}

}  // namespace

std::string library_name(py::handle array) {
  return array ? utf8(called(function("name_of"), array)) : "numpy";
}

std::string reason_to_refuse(const char* op, py::handle array) {
  return utf8(called(function("reason_to_refuse"), op, array));
}

void tell_written(py::handle array) {
  static PyTypeObject* known = nullptr;  // the type that asked last; it is kept alive
  static PyObject* hook = nullptr;       // what its library wants to be called with, or None
  py::object former_type, former_hook;   // dropped last: that may run Python code, which comes here
  if (PyTypeObject* const type = Py_TYPE(array.ptr()); type != known) {
    py::object found = called(function("written_hook"), array);
    Py_INCREF(reinterpret_cast<PyObject*>(type));
    former_hook = py::reinterpret_steal<py::object>(std::exchange(hook, found.release().ptr()));
    former_type =
        py::reinterpret_steal<py::object>(reinterpret_cast<PyObject*>(std::exchange(known, type)));
  }
  if (hook != Py_None) called(py::reinterpret_borrow<py::object>(hook), array);
}

bool is_immutable(py::handle array) {
  return called(function("is_immutable"), array).ptr() == Py_True;
}

bool is_row_major(py::handle array) {
  return called(function("is_row_major"), array).ptr() == Py_True;
}

void* current_stream(py::handle array, int device) {
  if (const std::optional<void*> stream = stream_by_table(array, device)) return *stream;
  const auto handle = called(function("current_stream"), array, device).cast<uintptr_t>();
  return reinterpret_cast<void*>(handle == 1 ? 0 : handle);
}

LibraryScratch scratch_like(const Call& call, py::handle like, int64_t bytes) {
  const py::object found = called(function("scratch"), like, bytes, call.place.device,
                                  reinterpret_cast<uintptr_t>(call.stream));
  if (found.is_none()) return {};
  const auto pair = found.cast<py::tuple>();
  return {pair[0], reinterpret_cast<void*>(pair[1].cast<uintptr_t>())};
}

void tell_used(const Call& call, std::span<const py::handle> arrays) {
  if (!call.place.is_cuda() || !call.is_stream_given()) return;
  py::list told;
  for (const py::handle array : arrays)
    if (array && stream_by_table(array, call.place.device) != call.stream) told.append(array);
  if (!told.empty())
    called(function("used_on"), told, call.place.device, reinterpret_cast<uintptr_t>(call.stream));
}

py::object export_capsule(const Call& call, Place place, py::handle array) {
  py::object stream = py::none();
  if (place.is_cuda()) stream = py::int_(call.dlpack_stream());
  if (call.dlpack_stream() == kPerThreadStream && !called(function("find"), array).is_none()) {
    // Torch does not order itself before this stream, so it is done here.
    const cuda::DeviceGuard guard(place.device);
    cuda::order_after(call.stream, current_stream(array, place.device));
    stream = py::int_(-1);
  }
  return called(function("export"), array, device_number(place), stream);
}

py::object allocate_like(const Call& call, py::handle like, const TensorDesc& desc) {
  const py::handle method = made_once([] { return interned("new_empty_strided"); });
  const py::tuple sizes = tuple_of(desc.sizes), strides = tuple_of(desc.strides);
  // Torch's, without Python code between: what its table allocates on a device it tells no stream.
  if (call.place.is_cuda() && has_type_by_table(like, desc.dtype)) {
    PyObject* const words[] = {like.ptr(), sizes.ptr(), strides.ptr()};
    auto made =
        py::reinterpret_steal<py::object>(PyObject_VectorcallMethod(method.ptr(), words, 3, {}));
    if (made) return made;
    forget_exception();  // the other way says it again
  }
  return called(function("allocate"), call.op, like, sizes, strides, name_of(desc.dtype),
                device_number(call.place));
}

py::object import_like(const Call& call, const TensorDesc& desc, py::handle like,
                       const py::object& memory) {
  return called(function("import_memory"), call.op, like, memory, name_of(desc.dtype));
}

py::object describe_array(py::handle array) {
  return called(py::module_::import("cudml._description").attr("describe"), array);
}

}  // namespace cudml::bindings
