// Importing arrays by protocol: __dlpack__ first, then __cuda_array_interface__.
#include "bindings/exchange.h"

#include <pybind11/stl.h>

#include <string>
#include <tuple>
#include <utility>

#include "bindings/dlpack.h"
#include "bindings/libraries.h"
#include "bindings/text.h"
#include "cuda/backend.h"

namespace cudml::bindings {
namespace {

/// Which argument is imported, and how a refusal of it begins.
struct Argument {
  Call& call;
  const char *field, *name;

  template <class... Parts>
  [[noreturn]] void fail(const Parts&... parts) const {
    throw py::buffer_error(join(call.op, ": ", field, " (", name, ") ", parts...));
  }
  template <class... Parts>
  void require(bool ok, const Parts&... parts) const {
    if (!ok) fail(parts...);
  }
};

/// What both protocols describe, with strides in elements.
struct Imported {
  int64_t rank = 0;
  const int64_t *shape = nullptr, *strides = nullptr;  // null strides mean packed
  uintptr_t address = 0;
  Dtype dtype = Dtype::float32;
  bool is_read_only = false;
};

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
  result.view.data = reinterpret_cast<void*>(in.address);
  result.footprint = footprint_of(result.view);
  result.is_read_only = in.is_read_only;
  result.keep = py::reinterpret_borrow<py::object>(object);
  result.source = object;
  return result;
}

[[noreturn]] void refuse_element_type(const Argument& at, const std::string& found) {
  refuse_type(at.call.op, ": ", at.field, ".DataType (", at.name, ") is ", found,
              "; it must be one of ", kTakenTypes);
}

Dtype dtype_of_dlpack(const Argument& at, dlpack::DataType type) {
  using namespace dlpack;
  const auto is = [&](uint8_t code, int bits) { return type.code == code && type.bits == bits; };
  if (type.lanes == 1) {
    if (is(kFloat, 32)) return Dtype::float32;
    if (is(kFloat, 16)) return Dtype::float16;
    if (is(kBfloat, 16)) return Dtype::bfloat16;
    if (is(kFloat, 64)) return Dtype::float64;
    for (int log = 0; log < 4; ++log) {
      if (is(kUint, 8 << log)) return Dtype(int(Dtype::uint8) + log);
      if (is(kInt, 8 << log)) return Dtype(int(Dtype::int8) + log);
    }
  }
  const char* kind = type.code == kBool      ? "bool"
                     : type.code == kComplex ? "complex"
                     : type.code == kInt     ? "int"
                     : type.code == kUint    ? "uint"
                     : type.code == kFloat   ? "float"
                                             : "DLPack type code ";
  std::string found = type.code > kBool || type.code == 3 ? join(kind, int(type.code)) : kind;
  if (type.code != kBool) found += join(type.code > kBool ? " of " : "", int(type.bits));
  refuse_element_type(at, type.lanes == 1 ? found : join(found, " in ", type.lanes, " lanes"));
}

Place place_of_dlpack(const Argument& at, dlpack::Device device) {
  if (device.type == dlpack::kCpu || device.type == dlpack::kCudaHost) return {};
  const bool is_cuda = device.type == dlpack::kCuda || device.type == dlpack::kCudaManaged;
  check(is_cuda && device.id >= 0, at.call.op, ": ", at.field, " (", at.name,
        ") is on DLPack device type ", device.type, ", number ", device.id,
        "; it must be on the CPU or on a CUDA device");
  return {device.id};
}

Place place_reported(const Argument& at, py::handle object) {
  const py::object pair = object.attr("__dlpack_device__")();
  at.require(PyTuple_Check(pair.ptr()) && PyTuple_GET_SIZE(pair.ptr()) == 2,
             "has a __dlpack_device__ that gives ", text_of(pair), "; it must be a pair");
  int64_t numbers[2];
  for (int i = 0; i < 2; ++i) {
    const auto index = py::reinterpret_steal<py::object>(
        PyNumber_Index(PyTuple_GET_ITEM(pair.ptr(), i)));  // types are enumerators in torch
    if (!index) throw py::error_already_set();
    numbers[i] = PyLong_AsLongLong(index.ptr());
    if (PyErr_Occurred()) throw py::error_already_set();
  }
  const auto narrow = [](int64_t n) { return n >= 0 && n <= INT32_MAX ? int32_t(n) : -1; };
  return place_of_dlpack(at, {narrow(numbers[0]), narrow(numbers[1])});
}

/// Takes a capsule's tensor; from here on its deleter runs once, whatever happens.
template <class Managed>
std::shared_ptr<Managed> take(PyObject* capsule) {
  auto* managed = static_cast<Managed*>(PyCapsule_GetPointer(capsule, Managed::kName));
  if (!managed) throw py::error_already_set();
  std::shared_ptr<Managed> owner(managed, [](Managed* m) {
    if (!m->deleter) return;
    const py::error_scope pending;  // a deleter may run Python code
    m->deleter(m);
  });
  if (PyCapsule_SetName(capsule, Managed::kUsedName)) throw py::error_already_set();
  return owner;
}

Array import_tensor(const Argument& at, const dlpack::Tensor& tensor, Place reported,
                    py::handle object) {
  at.require(place_of_dlpack(at, tensor.device) == reported,
             "is exported on another device than __dlpack_device__ says");
  at.require(tensor.ndim == 0 || tensor.shape, "has no shape");
  Imported in{tensor.ndim, tensor.shape, tensor.strides};
  in.dtype = dtype_of_dlpack(at, tensor.dtype);
  in.address = reinterpret_cast<uintptr_t>(tensor.data);
  if (in.address) in.address += tensor.byte_offset;
  return array_of(at, in, object);
}

Array dlpack_array(const Argument& at, py::handle object) {
  const Place place = place_reported(at, object);
  at.call.settle(place, at.field, at.name, object);
  const py::object capsule = export_capsule(at.call, place, object);
  if (PyCapsule_IsValid(capsule.ptr(), dlpack::ManagedVersioned::kName)) {
    auto owner = take<dlpack::ManagedVersioned>(capsule.ptr());
    at.require(owner->major == dlpack::kMajorVersion, "is exported with DLPack version ",
               owner->major, ".", owner->minor, "; only major version 1 is known");
    Array result = import_tensor(at, owner->tensor, place, object);
    result.is_read_only = owner->flags & dlpack::kReadOnly;
    result.is_copy = owner->flags & dlpack::kIsCopied;
    result.lease = std::move(owner);
    return result;
  }
  at.require(PyCapsule_IsValid(capsule.ptr(), dlpack::Managed::kName),
             "has a __dlpack__ that gives ", text_of(capsule), "; it must be a fresh capsule");
  auto owner = take<dlpack::Managed>(capsule.ptr());
  Array result = import_tensor(at, owner->tensor, place, object);
  result.lease = std::move(owner);
  return result;
}

// ---- the CUDA array interface ----

py::object entry(const Argument& at, const py::dict& interface, const char* key) {
  at.require(interface.contains(key), "has a __cuda_array_interface__ without \"", key, "\"");
  return interface[key];
}

int64_t integer(const Argument& at, py::handle object, const char* what) {
  const auto index = py::reinterpret_steal<py::object>(PyNumber_Index(object.ptr()));
  if (!index) PyErr_Clear();
  at.require(bool(index), "has a __cuda_array_interface__ whose ", what, " is ", text_of(object));
  const long long value = PyLong_AsLongLong(index.ptr());
  if (value == -1 && PyErr_Occurred()) {
    PyErr_Clear();
    at.fail("has a __cuda_array_interface__ whose ", what, " is ", text_of(object));
  }
  return value;
}

/// At most kMaxRank numbers; `rank` says how many there are.
void read_tuple(const Argument& at, py::handle object, const char* what, int64_t* numbers,
                int64_t& rank) {
  at.require(PyTuple_Check(object.ptr()), "has a __cuda_array_interface__ whose ", what,
             " is no tuple but ", text_of(object));
  rank = PyTuple_GET_SIZE(object.ptr());
  for (int64_t d = 0; d < rank && d < kMaxRank; ++d)
    numbers[d] = integer(at, PyTuple_GET_ITEM(object.ptr(), d), what);
}

Dtype dtype_of_typestr(const Argument& at, py::handle object) {
  at.require(PyUnicode_Check(object.ptr()), "has a __cuda_array_interface__ whose typestr is ",
             text_of(object));
  const std::string text = utf8(object);
  static constexpr std::pair<const char*, Dtype> kTypes[] = {
      {"f4", Dtype::float32}, {"f2", Dtype::float16}, {"f8", Dtype::float64}, {"u1", Dtype::uint8},
      {"u2", Dtype::uint16},  {"u4", Dtype::uint32},  {"u8", Dtype::uint64},  {"i1", Dtype::int8},
      {"i2", Dtype::int16},   {"i4", Dtype::int32},   {"i8", Dtype::int64}};
  if (text.size() == 3 && (text[0] == '<' || text[0] == '|' || text[0] == '='))
    for (const auto& [name, dtype] : kTypes)
      if (text.substr(1) == name) return dtype;
  refuse_element_type(at, "\"" + text + "\"");
}

/// Waits, on the device, for the stream that an interface of version 3 names.
void order_after_producer(const Argument& at, const py::dict& interface) {
  if (!interface.contains("stream")) return;
  const py::object stream = interface["stream"];
  if (stream.is_none() || at.call.is_explained) return;
  const auto number = uintptr_t(integer(at, stream, "stream"));
  at.require(number != 0, "has a __cuda_array_interface__ whose stream is 0, which is ambiguous");
  const cuda::DeviceGuard guard(at.call.place.device);
  cuda::order_after(at.call.stream, reinterpret_cast<void*>(number == 1 ? 0 : number));
}

Place place_of_address(const Argument& at, uintptr_t address) {
  try {
    // Nothing is allocated for an empty array, so that it is wherever it is looked for.
    if (!address) return {at.call.place.is_cuda() ? at.call.place.device : cuda::current_device()};
    const int device = cuda::device_of(reinterpret_cast<void*>(address));
    at.require(device >= 0, "has a __cuda_array_interface__ with memory that is no device's");
    return {device};
  } catch (const cuda::Error& error) {
    throw error.prefixed(join(at.call.op, ": ", at.field, " (", at.name, ") is on a GPU; "));
  }
}

Array interface_array(const Argument& at, const py::object& object, const py::object& found) {
  at.require(PyDict_Check(found.ptr()), "has a __cuda_array_interface__ that is no dict");
  const auto interface = py::reinterpret_borrow<py::dict>(found);
  const int64_t version = integer(at, entry(at, interface, "version"), "version");
  at.require(version >= 2, "has a __cuda_array_interface__ of version ", version,
             "; it must be 2 or 3");
  if (interface.contains("mask") && !py::object(interface["mask"]).is_none())
    refuse_type(at.call.op, ": ", at.field, " (", at.name,
                ") has a mask, which would be ignored; pass its data");
  int64_t shape[kMaxRank], strides[kMaxRank], strides_rank = 0;
  Imported in;
  in.shape = shape;
  read_tuple(at, entry(at, interface, "shape"), "shape", shape, in.rank);
  in.dtype = dtype_of_typestr(at, entry(at, interface, "typestr"));
  const py::object data = entry(at, interface, "data");
  at.require(PyTuple_Check(data.ptr()) && PyTuple_GET_SIZE(data.ptr()) == 2,
             "has a __cuda_array_interface__ whose data is ", text_of(data));
  in.address = uintptr_t(integer(at, PyTuple_GET_ITEM(data.ptr(), 0), "address"));
  in.is_read_only = PyObject_IsTrue(PyTuple_GET_ITEM(data.ptr(), 1)) == 1;
  if (interface.contains("strides") && !py::object(interface["strides"]).is_none()) {
    read_tuple(at, interface["strides"], "strides", strides, strides_rank);
    at.require(strides_rank == in.rank, "has ", strides_rank, " strides and ", in.rank, " sizes");
    const auto item = int64_t(size_of(in.dtype));
    for (int64_t d = 0; d < in.rank && d < kMaxRank; ++d) {
      at.require(shape[d] <= 1 || strides[d] % item == 0, "has a stride of ", strides[d],
                 " bytes, no multiple of its elements; copy it first");
      strides[d] /= item;
    }
    in.strides = strides;
  }
  at.call.settle(place_of_address(at, in.address), at.field, at.name, object);
  order_after_producer(at, interface);
  return array_of(at, in, object);
}

/// An attribute, or nothing where there is none; other exceptions are the caller's own.
py::object attribute(py::handle object, const char* name) {
  PyObject* found = PyObject_GetAttrString(object.ptr(), name);
  if (!found && !PyErr_ExceptionMatches(PyExc_AttributeError)) throw py::error_already_set();
  if (!found) PyErr_Clear();
  return py::reinterpret_steal<py::object>(found);
}

/// Where nothing is run, a shape and a type are enough.
Array described_array(const Argument& at, py::handle object) {
  const py::object description = describe_array(object);
  check_type(!description.is_none(), at.call.op, ": ", at.field, " (", at.name, ") is ",
             type_name(object), "; it must be an array, or have shape and dtype");
  const auto [type, shape, strides, address, device] =
      description.cast<std::tuple<std::string, py::tuple, py::object, uintptr_t, int>>();
  int64_t sizes[kMaxRank], steps[kMaxRank], rank = 0;
  Imported in;
  in.shape = sizes;
  read_tuple(at, shape, "shape", sizes, in.rank);
  if (!strides.is_none()) {
    read_tuple(at, strides, "strides", steps, rank);
    at.require(rank == in.rank, "has ", rank, " strides and ", in.rank, " sizes");
    in.strides = steps;
  }
  const auto dtype = dtype_named(type);
  if (!dtype) refuse_element_type(at, type);
  in.dtype = *dtype;
  in.address = address ? address : 256;  // stands for any well aligned one
  at.call.settle({device}, at.field, at.name, object);
  Array result = array_of(at, in, object);
  if (!address) result.footprint.sizes = Dims{0};  // overlaps nothing
  return result;
}

}  // namespace

Array foreign_array(Call& call, const char* field, const char* name, py::handle object) {
  const Argument at{call, field, name};
  if (call.is_explained) return described_array(at, object);
  const bool is_type = PyType_Check(object.ptr());  // which has its instances' methods
  if (!is_type && attribute(object, "__dlpack__") && attribute(object, "__dlpack_device__"))
    return dlpack_array(at, object);
  if (const py::object found =
          is_type ? py::object() : attribute(object, "__cuda_array_interface__"))
    return interface_array(at, py::reinterpret_borrow<py::object>(object), found);
  refuse_type(call.op, ": ", field, " (", name, ") is ", type_name(object),
              "; it must be an array: NumPy's, or one with __dlpack__ or "
              "__cuda_array_interface__");
}

Array new_foreign_array(Call& call, const char* field, py::handle like, const TensorDesc& desc) {
  const py::object object = allocate_like(call, like, desc);
  Array result = foreign_array(call, field, "a new array", object);
  bool is_asked_for = result.view.sizes == desc.sizes && result.view.dtype == desc.dtype &&
                      !result.is_read_only && !result.is_copy;
  for (int d = 0; is_asked_for && d < desc.rank(); ++d)
    is_asked_for =
        desc.sizes[d] <= 1 || count(desc.sizes) == 0 || result.view.strides[d] == desc.strides[d];
  check_type(is_asked_for, call.op, ": ", field, " cannot be allocated like ", type_name(like),
             " with sizes ", desc.sizes, " and strides ", desc.strides, "; pass out");
  static_cast<TensorDesc&>(result.view) = desc;  // with the plan's strides where none matter
  return result;
}

}  // namespace cudml::bindings
