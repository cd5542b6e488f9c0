// Memory of this library's own, offered by protocol.
#include "bindings/exporter.h"

#include <cstdlib>
#include <new>
#include <optional>
#include <string>
#include <utility>

#include "bindings/boxed.h"
#include "bindings/dlpack.h"
#include "bindings/raise.h"
#include "bindings/text.h"
#include "cuda/device.h"

namespace cudml::bindings {
namespace {

constexpr size_t kAlignment = 64;  // below it some libraries copy what they import

int64_t bytes_of(const TensorDesc& desc) {
  return count(desc.sizes) * int64_t(size_of(desc.dtype));
}

std::shared_ptr<void> new_cpu_memory(int64_t bytes) {
  const size_t whole = (size_t(bytes) + kAlignment - 1) / kAlignment * kAlignment;
  void* data = std::aligned_alloc(kAlignment, whole ? whole : kAlignment);
  if (!data) throw std::bad_alloc();
  return {data, std::free};
}

/// Memory that is released in the order of the stream that it was taken on.
struct DeviceMemory {
  DeviceMemory(int64_t bytes, int number, void* stream) : device(number) {
    const cuda::DeviceGuard guard(device);
    memory.emplace(bytes, stream);
  }
  ~DeviceMemory() {
    try {
      const cuda::DeviceGuard guard(device);
      memory.reset();
    } catch (const cuda::Error&) {  // of a process that is ending
    }
  }
  int device;
  std::optional<cuda::StreamMemory> memory;
};

std::shared_ptr<void> new_device_memory(int64_t bytes, int device, void* stream) {
  auto owner = std::make_shared<DeviceMemory>(bytes, device, stream);
  return {owner, owner->memory->data()};
}

/// What a consumer owns until it calls the deleter.
template <class Managed>
struct Lent {
  Managed managed{};
  TensorView view;
  std::shared_ptr<void> memory;

  static void release(Managed* managed) { delete static_cast<Lent*>(managed->manager); }
};

template <class Managed>
void release_unused(PyObject* capsule) {
  if (!PyCapsule_IsValid(capsule, Managed::kName)) return;  // somebody took it
  auto* managed = static_cast<Managed*>(PyCapsule_GetPointer(capsule, Managed::kName));
  managed->deleter(managed);
}

template <class Managed>
py::object lend(const TensorView& view, Place place, const std::shared_ptr<void>& memory) {
  auto lent = std::make_unique<Lent<Managed>>();
  lent->view = view;
  lent->memory = memory;
  Managed& managed = lent->managed;
  managed.tensor = {view.data,
                    {place.is_cuda() ? dlpack::kCuda : dlpack::kCpu, std::max(place.device, 0)},
                    view.rank(),
                    dlpack::type_of(view.dtype),
                    lent->view.sizes.value,
                    lent->view.strides.value,
                    0};
  managed.manager = lent.get();
  managed.deleter = &Lent<Managed>::release;
  if constexpr (std::is_same_v<Managed, dlpack::ManagedVersioned>) {
    managed.major = dlpack::kMajorVersion;
    managed.minor = dlpack::kMinorVersion;
  }
  PyObject* capsule = PyCapsule_New(&managed, Managed::kName, &release_unused<Managed>);
  if (!capsule) throw py::error_already_set();
  lent.release();
  return py::reinterpret_steal<py::object>(capsule);
}

}  // namespace

ExportedMemory::ExportedMemory(const Call& call, const TensorDesc& desc)
    : place_(call.place), stream_(call.stream) {
  static_cast<TensorDesc&>(view_) = desc;
  const int64_t bytes = bytes_of(desc);
  memory_ =
      place_.is_cuda() ? new_device_memory(bytes, place_.device, stream_) : new_cpu_memory(bytes);
  view_.data = memory_.get();
}

void ExportedMemory::order_consumer(const py::object& stream) const {
  if (!place_.is_cuda()) {
    check(stream.is_none(), "__dlpack__: stream is ", text_of(stream),
          "; for memory on the CPU it must be None");
    return;
  }
  const int64_t number = stream.is_none() ? 1 : py::cast<int64_t>(py::int_(stream));
  if (number == -1) return;
  const cuda::DeviceGuard guard(place_.device);
  cuda::order_after(reinterpret_cast<void*>(number == 1 ? 0 : uintptr_t(number)), stream_);
}

py::object ExportedMemory::capsule(const py::args& arguments, const py::kwargs& keywords) const {
  check_type(arguments.empty(), "__dlpack__: there are keyword arguments only");
  py::object stream = py::none(), max_version = py::none(), device = py::none(), copy = py::none();
  for (auto [key, value] : keywords) {
    const std::string name = utf8(key);
    py::object* place = name == "stream"        ? &stream
                        : name == "max_version" ? &max_version
                        : name == "dl_device"   ? &device
                        : name == "copy"        ? &copy
                                                : nullptr;
    check_type(place, "__dlpack__: unexpected keyword argument '", shown(name), "'");
    *place = py::reinterpret_borrow<py::object>(value);
  }
  if (!device.is_none() && !device.equal(dlpack_device()))
    throw py::buffer_error(
        join("__dlpack__: dl_device is ", text_of(device), "; the memory is on ", name_of(place_)));
  if (copy.ptr() == Py_True)
    throw py::buffer_error("__dlpack__: copy is True; the memory is lent and never copied");
  const bool is_tuple =
      PyTuple_Check(max_version.ptr()) && PyTuple_GET_SIZE(max_version.ptr()) == 2;
  check_type(is_tuple || max_version.is_none(), "__dlpack__: max_version is ", text_of(max_version),
             "; it must be None or a pair of numbers");
  const bool is_versioned =
      is_tuple && py::object(py::reinterpret_borrow<py::tuple>(max_version)[0]) >=
                      py::object(py::int_(dlpack::kMajorVersion));
  order_consumer(stream);
  return is_versioned ? lend<dlpack::ManagedVersioned>(view_, place_, memory_)
                      : lend<dlpack::Managed>(view_, place_, memory_);
}

py::tuple ExportedMemory::dlpack_device() const {
  if (place_.is_cuda()) return py::make_tuple(int(dlpack::kCuda), place_.device);
  return py::make_tuple(int(dlpack::kCpu), 0);
}

/// What both array interfaces say.
py::dict ExportedMemory::interface() const {
  const auto item = int64_t(size_of(view_.dtype));
  py::tuple shape(size_t(view_.rank())), strides(size_t(view_.rank()));
  for (int d = 0; d < view_.rank(); ++d) {
    shape[size_t(d)] = py::int_(view_.sizes[d]);
    strides[size_t(d)] = py::int_(view_.strides[d] * item);
  }
  py::dict found;
  found["version"] = 3;
  found["shape"] = shape;
  found["strides"] = strides;
  found["typestr"] = numpy_dtype(view_.dtype).attr("str");
  found["data"] = py::make_tuple(reinterpret_cast<uintptr_t>(view_.data), false);
  return found;
}

py::dict ExportedMemory::array_interface() const {
  if (place_.is_cuda()) throw py::attribute_error("__array_interface__: the memory is on a GPU");
  return interface();
}

py::dict ExportedMemory::cuda_array_interface() const {
  if (!place_.is_cuda()) throw py::attribute_error("__cuda_array_interface__: not on a GPU");
  py::dict found = interface();
  found["stream"] = py::int_(stream_ ? reinterpret_cast<uintptr_t>(stream_) : 1);
  return found;
}

namespace {

const ExportedMemory& memory_of(PyObject* self) { return *value_of<ExportedMemory>(self); }

PyObject* memory_capsule(PyObject* self, PyObject* arguments, PyObject* keywords) {
  return result_of([&] {
    return memory_of(self).capsule(
        py::reinterpret_borrow<py::args>(arguments),
        keywords ? py::reinterpret_borrow<py::kwargs>(keywords) : py::kwargs());
  });
}

PyObject* memory_device(PyObject* self, PyObject*) {
  return result_of([&] { return memory_of(self).dlpack_device(); });
}

PyObject* memory_interface(PyObject* self, void*) {
  return result_of([&] { return memory_of(self).array_interface(); });
}

PyObject* memory_cuda_interface(PyObject* self, void*) {
  return result_of([&] { return memory_of(self).cuda_array_interface(); });
}

PyMethodDef memory_methods[] = {
    {"__dlpack__", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(&memory_capsule)),
     METH_VARARGS | METH_KEYWORDS, nullptr},
    {"__dlpack_device__", &memory_device, METH_NOARGS, nullptr},
    {}};

PyGetSetDef memory_properties[] = {
    {"__array_interface__", &memory_interface, nullptr, nullptr, nullptr},
    {"__cuda_array_interface__", &memory_cuda_interface, nullptr, nullptr, nullptr},
    {}};

PyType_Slot memory_slots[] = {
    {Py_tp_dealloc, reinterpret_cast<void*>(&deallocate_boxed<ExportedMemory>)},
    {Py_tp_methods, memory_methods},
    {Py_tp_getset, memory_properties},
    {}};

PyObject* memory_type() {
  static PyObject* const type =
      boxed_type<ExportedMemory>(CUDML_TYPE_NAME("ExportedMemory"), memory_slots);
  return type;
}

}  // namespace

Array exported_array(const Call& call, const TensorDesc& desc) {
  auto memory = std::make_shared<ExportedMemory>(call, desc);
  Array result;
  result.view = memory->view();
  result.is_exported = true;
  result.keep = boxed(memory_type(), std::move(memory));
  return result;
}

void bind_exporter(py::module_& module) {
  module.attr("ExportedMemory") = py::handle(memory_type());
}

}  // namespace cudml::bindings
