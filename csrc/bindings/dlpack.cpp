// Importing arrays by DLPack: by the exchange table of their type, else by a capsule.
#include "bindings/dlpack.h"

#include <iterator>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "bindings/imported.h"
#include "bindings/libraries.h"
#include "bindings/objects.h"
#include "bindings/reordered.h"
#include "cuda/device.h"

namespace cudml::bindings {
namespace {

/// ", float8_e4m3fn" of the type codes from 7 on, which number the narrow floats; else nothing.
std::string narrow_float(int code) {
  constexpr const char* kNames[] = {"float8_e3m4",     "float8_e4m3",     "float8_e4m3b11fnuz",
                                    "float8_e4m3fn",   "float8_e4m3fnuz", "float8_e5m2",
                                    "float8_e5m2fnuz", "float8_e8m0fnu",  "float6_e2m3fn",
                                    "float6_e3m2fn",   "float4_e2m1fn"};
  const int place = code - 7;
  return place >= 0 && place < int(std::size(kNames)) ? join(", ", kNames[place]) : "";
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
                     : type.code == kBfloat  ? "bfloat"
                                             : nullptr;
  std::string found = kind ? join(kind, int(type.bits))
                           : join("of DLPack's type code ", int(type.code), " with ",
                                  int(type.bits), " bits", narrow_float(type.code));
  if (type.code == kBool && type.bits == 8) found = kind;
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

/// A number of __dlpack_device__, -1 for one that is none of DLPack's; nothing for what is no int.
std::optional<int32_t> device_number(PyObject* object) {
  const auto index = py::reinterpret_steal<py::object>(PyNumber_Index(object));  // torch: an Enum
  if (!index) {
    forget_exception();
    return std::nullopt;
  }
  int overflow = 0;
  const long long number = PyLong_AsLongLongAndOverflow(index.ptr(), &overflow);
  return number >= 0 && number <= INT32_MAX ? int32_t(number) : -1;
}

Place place_reported(const Argument& at, py::handle object) {
  const py::object pair = object.attr("__dlpack_device__")();
  std::optional<int32_t> type, device;
  if (PyTuple_Check(pair.ptr()) && PyTuple_GET_SIZE(pair.ptr()) == 2) {
    type = device_number(PyTuple_GET_ITEM(pair.ptr(), 0));
    device = device_number(PyTuple_GET_ITEM(pair.ptr(), 1));
  }
  at.require(type && device, "has a __dlpack_device__ that gives ", text_of(pair),
             "; it must be a pair of DLPack's device type and a device's number");
  return place_of_dlpack(at, {*type, *device});
}

/// Runs a tensor's deleter when nobody needs it any more, at once where there is no memory for
/// that.
template <class Managed>
std::shared_ptr<Managed> owned(Managed* managed) {
  return std::shared_ptr<Managed>(managed, [](Managed* m) {
    if (!m->deleter) return;
    const py::error_scope pending;  // a deleter may run Python code
    m->deleter(m);
  });
}

/// Takes a capsule's tensor; from here on its deleter runs once, whatever happens: the capsule is
/// renamed first, because an owner that finds no memory for itself runs the deleter as well.
template <class Managed>
std::shared_ptr<Managed> take(PyObject* capsule) {
  auto* managed = static_cast<Managed*>(PyCapsule_GetPointer(capsule, Managed::kName));
  if (!managed) throw py::error_already_set();
  if (PyCapsule_SetName(capsule, Managed::kUsedName)) throw py::error_already_set();
  return owned(managed);
}

Array import_tensor(const Argument& at, const dlpack::Tensor& tensor, Place reported,
                    py::handle object) {
  at.require(place_of_dlpack(at, tensor.device) == reported,
             "is exported on another device than __dlpack_device__ says");
  at.require(tensor.ndim == 0 || tensor.shape, "has no shape");
  Imported in{tensor.ndim, tensor.shape, tensor.strides};
  in.dtype = dtype_of_dlpack(at, tensor.dtype);
  in.address = reinterpret_cast<uintptr_t>(tensor.data);
  at.require(in.address <= INT64_MAX && tensor.byte_offset <= INT64_MAX - in.address,
             "is exported at an address and byte_offset that no memory has");
  if (in.address) in.address += tensor.byte_offset;
  return array_of(at, in, object);
}

/// Torch negates such an array's elements as it reads them, which no protocol says.
bool is_negated(py::handle object) {
  const py::handle name = made_once([] { return interned("is_neg"); });
  const auto found =
      py::reinterpret_steal<py::object>(PyObject_CallMethodNoArgs(object.ptr(), name.ptr()));
  if (!found) forget_exception();
  return found.ptr() == Py_True;
}

/// Whether tensors may have tangents of forward-mode differentiation now, which no protocol says.
bool is_in_forward_mode() {
  const py::handle module_name = made_once([] { return interned("torch.autograd.forward_ad"); });
  const py::handle level_name = made_once([] { return interned("_current_level"); });
  static PyObject* module = nullptr;  // kept for the life of the process
  if (!module) module = PyImport_GetModule(module_name.ptr());
  if (!module) return PyErr_Clear(), false;
  PyObject* const level = PyDict_GetItemWithError(PyModule_GetDict(module), level_name.ptr());
  return level && PyLong_Check(level) && PyLong_AsLong(level) >= 0;
}

/// Whether torch might record what is done with an array: it refuses a capsule then, its table does
/// not ask.
bool is_tracked(py::handle object) {
  const py::handle name = made_once([] { return interned("requires_grad"); });
  const auto found = py::reinterpret_steal<py::object>(PyObject_GetAttr(object.ptr(), name.ptr()));
  if (!found) forget_exception();
  return found.ptr() == Py_True || is_in_forward_mode();
}

/// Refuses what the array's library knows cannot be taken.
void refuse_unfit(const Argument& at, py::handle object) {
  const std::string why = reason_to_refuse(at.call.op, object);
  at.require(why.empty(), why);
}

void refuse_negated(const Argument& at, py::handle object) {
  at.require(!is_negated(object), "has its negative bit set; pass its resolve_neg()");
}

Array capsule_array(const Argument& at, py::handle object) {
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
    result.storage = storage_of(object);
    result.lease = std::move(owner);
    return result;
  }
  at.require(PyCapsule_IsValid(capsule.ptr(), dlpack::Managed::kName),
             "has a __dlpack__ that gives ", text_of(capsule), "; it must be a fresh capsule");
  auto owner = take<dlpack::Managed>(capsule.ptr());
  Array result = import_tensor(at, owner->tensor, place, object);
  result.storage = storage_of(object);
  result.lease = std::move(owner);
  return result;
}

// ---- exchange tables ----

/// torch.nn.Parameter, a tensor with another name.
bool is_parameter(const PyTypeObject* type) {
  const auto module = py::reinterpret_borrow<py::object>(
      type->tp_dict ? PyDict_GetItemString(type->tp_dict, "__module__") : nullptr);
  return std::string_view(type->tp_name) == "Parameter" && module &&
         PyUnicode_Check(module.ptr()) &&
         PyUnicode_CompareWithASCIIString(module.ptr(), "torch.nn.parameter") == 0;
}

/// The table that a type itself has, and not a base of it: classes derived from an array may hold
/// anything.
const dlpack::ExchangeTable* read_table(PyTypeObject* type) {
  if (is_parameter(type)) type = type->tp_base;
  if (!type->tp_dict) return nullptr;
  for (const char* name : dlpack::ExchangeTable::kAttributes) {
    PyObject* capsule = PyDict_GetItemString(type->tp_dict, name);
    if (!capsule || !PyCapsule_IsValid(capsule, dlpack::ExchangeTable::kCapsuleName)) continue;
    const auto* table = static_cast<const dlpack::ExchangeTable*>(
        PyCapsule_GetPointer(capsule, dlpack::ExchangeTable::kCapsuleName));
    while (table && table->major != dlpack::kMajorVersion) table = table->previous;
    if (table && table->borrow && table->current_stream) return table;
  }
  return nullptr;
}

/// The same, remembered for the types that have one; they are kept alive for it.
const dlpack::ExchangeTable* table_of(PyTypeObject* type) {
  static auto& known = *new std::unordered_map<PyTypeObject*, const dlpack::ExchangeTable*>;
  const auto found = known.find(type);
  if (found != known.end()) return found->second;
  const dlpack::ExchangeTable* table = read_table(type);
  if (table) {
    Py_INCREF(reinterpret_cast<PyObject*>(type));
    known.emplace(type, table);
  }
  return table;
}

/// The stream that a table says is current; nothing, and Python's error, where it does not know.
std::optional<void*> current_stream_of(const dlpack::ExchangeTable& table, int device) {
  void* stream = nullptr;
  if (table.current_stream(dlpack::kCuda, device, &stream) != 0) return std::nullopt;
  return stream == reinterpret_cast<void*>(1) ? nullptr : stream;  // two names of the default one
}

/// The call's stream may be another than the one that fills the array.
void order_after_current(const Argument& at, const dlpack::ExchangeTable& table, Place place) {
  const std::optional<void*> producer = current_stream_of(table, place.device);
  at.require(producer.has_value(), "has an exchange table that knows no current stream");
  if (*producer == at.call.stream) return;
  const cuda::DeviceGuard guard(place.device);
  cuda::order_after(at.call.stream, *producer);
}

std::optional<Array> table_array(const Argument& at, py::handle object) {
  const dlpack::ExchangeTable* table = table_of(Py_TYPE(object.ptr()));
  if (!table) return std::nullopt;
  dlpack::Tensor tensor{};
  if (table->borrow(object.ptr(), &tensor) != 0) {
    forget_exception();  // the capsule's refusal says more
    return std::nullopt;
  }
  if (!tensor.data) return std::nullopt;  // empty, or without memory: likewise
  const Place place = place_of_dlpack(at, tensor.device);
  Array result = import_tensor(at, tensor, place, object);  // before Python code can change it
  result.is_borrowed = true;
  if (is_tracked(object)) refuse_unfit(at, object);
  refuse_negated(at, object);
  at.call.settle(place, at.field, at.name, object);
  if (place.is_cuda()) order_after_current(at, *table, place);
  return result;
}

}  // namespace

std::optional<Array> dlpack_array(const Argument& at, py::handle object) {
  if (std::optional<Array> array = table_array(at, object)) return array;
  if (!attribute(object, "__dlpack__") || !attribute(object, "__dlpack_device__"))
    return std::nullopt;
  refuse_unfit(at, object);
  refuse_negated(at, object);
  return capsule_array(at, object);
}

namespace {

/// Whether memory is described as having exactly these sizes, strides and element type.
bool is_of(const dlpack::Tensor& tensor, const TensorDesc& desc) {
  const dlpack::DataType type = dlpack::type_of(desc.dtype);
  if (tensor.ndim != desc.rank() || tensor.dtype.code != type.code ||
      tensor.dtype.bits != type.bits || tensor.dtype.lanes != type.lanes)
    return false;
  bool same = tensor.strides, is_empty = false;
  for (int d = 0; d < desc.rank(); ++d) {
    if (tensor.shape[d] != desc.sizes[d]) return false;
    is_empty |= desc.sizes[d] == 0;
    same = same && (desc.sizes[d] <= 1 || tensor.strides[d] == desc.strides[d]);
  }
  return same || is_empty;
}

/// What the exchange table of its type says of an array; without memory where it says nothing.
dlpack::Tensor described_by_table(py::handle object) {
  const dlpack::ExchangeTable* table = table_of(Py_TYPE(object.ptr()));
  dlpack::Tensor tensor{};
  if (table && table->borrow(object.ptr(), &tensor) != 0) {
    forget_exception();
    return {};
  }
  return tensor;
}

char* first_element(const dlpack::Tensor& tensor) {
  return static_cast<char*>(tensor.data) + tensor.byte_offset;
}

}  // namespace

bool is_as_borrowed(const Array& array) {
  const dlpack::Tensor now = described_by_table(array.source);
  return first_element(now) == array.view.data && is_of(now, array.view);
}

py::object storage_of(py::handle array) {
  const py::handle name = made_once([] { return interned("untyped_storage"); });
  auto storage =
      py::reinterpret_steal<py::object>(PyObject_CallMethodNoArgs(array.ptr(), name.ptr()));
  if (!storage) forget_exception();
  return storage;
}

bool is_read_as_it_lies(py::handle object) {
  return !table_of(Py_TYPE(object.ptr())) || (!is_tracked(object) && !is_negated(object));
}

bool has_table(PyTypeObject* type) { return table_of(type); }

std::optional<void*> stream_by_table(py::handle array, int device) {
  const dlpack::ExchangeTable* table = table_of(Py_TYPE(array.ptr()));
  if (!table) return std::nullopt;
  const std::optional<void*> stream = current_stream_of(*table, device);
  if (!stream) forget_exception();
  return stream;
}

void* address_by_table(py::handle object, const TensorDesc& desc, Place place) {
  const dlpack::Tensor tensor = described_by_table(object);
  const bool is_there =
      place.is_cuda() ? tensor.device.type == dlpack::kCuda && tensor.device.id == place.device
                      : tensor.device.type == dlpack::kCpu;
  if (!tensor.data || !is_there || !is_of(tensor, desc)) return nullptr;
  char* address = first_element(tensor);
  return reinterpret_cast<uintptr_t>(address) % size_of(desc.dtype) ? nullptr : address;
}

namespace {

/// Whether the elements fill the memory from the first to the last one.
bool is_dense(const TensorDesc& desc) {
  int64_t extent = 1;
  for (int d = 0; d < desc.rank(); ++d) extent += (desc.sizes[d] - 1) * desc.strides[d];
  return extent == count(desc.sizes);
}

}  // namespace

std::optional<Array> allocated_by_table(const Call& call, py::handle like, const TensorDesc& desc) {
  const dlpack::ExchangeTable* table = table_of(Py_TYPE(like.ptr()));
  if (!table || !table->allocate || !table->import_managed || call.place.is_cuda() ||
      count(desc.sizes) == 0 || !is_dense(desc))
    return std::nullopt;
  Dims sizes = desc.sizes, strides = packed_strides(desc.sizes);
  auto reordered = desc.strides == strides ? nullptr : std::make_unique<dlpack::Reordered>();
  dlpack::Tensor prototype{nullptr,
                           {dlpack::kCpu, 0},
                           desc.rank(),
                           dlpack::type_of(desc.dtype),
                           sizes.value,
                           strides.value,
                           0};
  dlpack::ManagedVersioned* managed = nullptr;
  const auto ignore = [](void*, const char*, const char*) {};  // the other way says it again
  if (table->allocate(&prototype, &managed, nullptr, ignore) != 0) {
    forget_exception();
    return std::nullopt;
  }
  if (reordered) managed = dlpack::Reordered::of(std::move(reordered), desc, managed);
  Array result;
  static_cast<TensorDesc&>(result.view) = desc;
  result.view.data = static_cast<char*>(managed->tensor.data) + managed->tensor.byte_offset;
  void* object = nullptr;
  if (table->import_managed(managed, &object) != 0) throw py::error_already_set();
  result.keep = py::reinterpret_steal<py::object>(static_cast<PyObject*>(object));
  result.source = result.keep;
  return result;
}

bool has_type_by_table(py::handle array, Dtype dtype) {
  const dlpack::DataType asked = dlpack::type_of(dtype), own = described_by_table(array).dtype;
  return asked.code == own.code && asked.bits == own.bits;
}

}  // namespace cudml::bindings
