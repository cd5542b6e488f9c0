// What the protocols that describe arrays have in common.
#pragma once

#include <string>

#include "bindings/arrays.h"
#include "bindings/text.h"

namespace cudml::bindings {

/// Which argument is imported, and how a refusal of it begins.
struct Argument {
  Call& call;
  const char *field, *name;
  const char* source = "__cuda_array_interface__";  // of what is read number by number

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

/// The array that is described, every number of it checked. `object` owns its memory.
Array array_of(const Argument& at, const Imported& in, py::handle object);

[[noreturn]] void refuse_element_type(const Argument& at, const std::string& found);

/// An attribute, or nothing where there is none; other exceptions are the caller's own.
py::object attribute(py::handle object, const char* name);

/// An array by DLPack, from an object that has `__dlpack__` or whose type has an exchange table;
/// nothing from any other.
std::optional<Array> dlpack_array(const Argument& at, py::handle object);

/// Whether an array's elements are what its memory holds, and nobody records what is done with
/// them. May run Python code, for arrays whose type has an exchange table only.
bool is_read_as_it_lies(py::handle object);

/// Whether arrays of a type are read by an exchange table.
bool has_table(PyTypeObject* type);

/// Where an array at `place` begins that its type's exchange table describes as exactly this
/// tensor; null for all others, which may be as good. Calls nothing of Python's.
void* address_by_table(py::handle object, const TensorDesc& desc, Place place);

/// The stream that is current on a device in the library of an array whose type has an exchange
/// table; nothing where it has none or the table does not know. Calls nothing of Python's.
std::optional<void*> stream_by_table(py::handle array, int device);

/// Whether the exchange table still describes a borrowed array as it did.
bool is_as_borrowed(const Array& array);

/// What owns the memory of torch's tensors, and `set_` exchanges: neither a tensor nor its capsule
/// keeps it. Nothing of other arrays.
py::object storage_of(py::handle array);

/// A new array of `like`'s library by the exchange table of its type, where there is one and `desc`
/// is packed memory of the CPU.
std::optional<Array> allocated_by_table(const Call& call, py::handle like, const TensorDesc& desc);
/// Whether the exchange table of its type says that an array has this element type.
bool has_type_by_table(py::handle array, Dtype dtype);

/// An array by what its `__cuda_array_interface__` gives.
Array interface_array(const Argument& at, py::handle object, const py::object& interface);

/// Whether its `__cuda_array_interface__` still describes an array as it did.
bool is_as_described(const Argument& at, const Array& array);

/// At most kMaxRank whole numbers of a tuple, which refusals call `what` of the interface; `rank`
/// says how many there are.
void read_tuple(const Argument& at, py::handle object, const char* what, int64_t* numbers,
                int64_t& rank);

}  // namespace cudml::bindings
