// Importing arrays by __cuda_array_interface__.
#include <string>
#include <utility>

#include "bindings/imported.h"
#include "cuda/device.h"

namespace cudml::bindings {
namespace {

py::object entry(const Argument& at, const py::dict& interface, const char* key) {
  at.require(interface.contains(key), "has a __cuda_array_interface__ without \"", key, "\"");
  return interface[key];
}

int64_t integer(const Argument& at, py::handle object, const char* what) {
  const auto index = py::reinterpret_steal<py::object>(PyNumber_Index(object.ptr()));
  if (!index) forget_exception();
  at.require(bool(index), "has a ", at.source, " whose ", what, " is ", text_of(object));
  const long long value = PyLong_AsLongLong(index.ptr());
  if (value == -1 && PyErr_Occurred()) {
    PyErr_Clear();
    at.fail("has a ", at.source, " whose ", what, " is ", text_of(object));
  }
  return value;
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
  try {
    const cuda::DeviceGuard guard(at.call.place.device);
    cuda::order_after(at.call.stream, reinterpret_cast<void*>(number == 1 ? 0 : number));
  } catch (const cuda::Error& error) {
    throw error.prefixed(join(at.call.op, ": ", at.field, " (", at.name, ") has a stream; "));
  }
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

}  // namespace

void read_tuple(const Argument& at, py::handle object, const char* what, int64_t* numbers,
                int64_t& rank) {
  at.require(PyTuple_Check(object.ptr()), "has a ", at.source, " whose ", what, " is no tuple but ",
             text_of(object));
  rank = PyTuple_GET_SIZE(object.ptr());
  for (int64_t d = 0; d < rank && d < kMaxRank; ++d)
    numbers[d] = integer(at, PyTuple_GET_ITEM(object.ptr(), d), what);
}

namespace {

/// What an interface says, with the numbers that `in` refers to.
struct Described {
  Imported in;
  int64_t shape[kMaxRank], strides[kMaxRank];

  Described(const Argument& at, const py::dict& interface);
  Described(const Described&) = delete;
  Described& operator=(const Described&) = delete;

 private:
  void read_data(const Argument& at, const py::dict& interface);
  void read_strides(const Argument& at, const py::dict& interface);
};

Described::Described(const Argument& at, const py::dict& interface) {
  const int64_t version = integer(at, entry(at, interface, "version"), "version");
  at.require(version >= 2, "has a __cuda_array_interface__ of version ", version,
             "; it must be 2 or 3");
  if (interface.contains("mask") && !py::object(interface["mask"]).is_none())
    refuse_type(at.call.op, ": ", at.field, " (", at.name,
                ") has a mask, which would be ignored; pass its data");
  in.shape = shape;
  read_tuple(at, entry(at, interface, "shape"), "shape", shape, in.rank);
  in.dtype = dtype_of_typestr(at, entry(at, interface, "typestr"));
  read_data(at, interface);
  if (interface.contains("strides") && !py::object(interface["strides"]).is_none())
    read_strides(at, interface);
}

void Described::read_data(const Argument& at, const py::dict& interface) {
  const py::object data = entry(at, interface, "data");
  at.require(PyTuple_Check(data.ptr()) && PyTuple_GET_SIZE(data.ptr()) == 2,
             "has a __cuda_array_interface__ whose data is ", text_of(data));
  in.address = uintptr_t(integer(at, PyTuple_GET_ITEM(data.ptr(), 0), "address"));
  const int is_read_only = PyObject_IsTrue(PyTuple_GET_ITEM(data.ptr(), 1));
  if (is_read_only < 0) throw py::error_already_set();
  in.is_read_only = is_read_only == 1;
}

void Described::read_strides(const Argument& at, const py::dict& interface) {
  int64_t rank = 0;
  read_tuple(at, interface["strides"], "strides", strides, rank);
  at.require(rank == in.rank, "has ", rank, " strides and ", in.rank, " sizes");
  const auto item = int64_t(size_of(in.dtype));
  for (int64_t d = 0; d < in.rank && d < kMaxRank; ++d) {
    at.require(shape[d] <= 1 || strides[d] % item == 0, "has a stride of ", strides[d],
               " bytes, no multiple of its elements; copy it first");
    strides[d] /= item;
  }
  in.strides = strides;
}

py::dict dict_of(const Argument& at, const py::object& found) {
  at.require(PyDict_Check(found.ptr()), "has a __cuda_array_interface__ that is no dict");
  return py::reinterpret_borrow<py::dict>(found);
}

bool is_same(const TensorView& a, const TensorView& b) {
  if (a.data != b.data || a.dtype != b.dtype || !(a.sizes == b.sizes)) return false;
  if (count(a.sizes) == 0) return true;
  for (int d = 0; d < a.rank(); ++d)
    if (a.sizes[d] > 1 && a.strides[d] != b.strides[d]) return false;
  return true;
}

}  // namespace

Array interface_array(const Argument& at, py::handle object, const py::object& found) {
  const py::dict interface = dict_of(at, found);
  const Described described(at, interface);
  at.call.settle(place_of_address(at, described.in.address), at.field, at.name, object);
  order_after_producer(at, interface);
  Array result = array_of(at, described.in, object);
  result.is_interface = true;
  return result;
}

bool is_as_described(const Argument& at, const Array& array) {
  const py::object found = attribute(array.source, "__cuda_array_interface__");
  if (!found) return false;
  const Described described(at, dict_of(at, found));
  const Array now = array_of(at, described.in, array.source);
  return is_same(now.view, array.view) && now.is_read_only == array.is_read_only;
}

}  // namespace cudml::bindings
