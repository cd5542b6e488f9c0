// Arrays of other libraries: which protocol describes one, and new ones like it.
#include "bindings/exchange.h"

#include <pybind11/stl.h>

#include <string>
#include <tuple>

#include "bindings/exporter.h"
#include "bindings/imported.h"
#include "bindings/libraries.h"
#include "bindings/memory.h"

namespace cudml::bindings {
namespace {

/// Where nothing is run, a shape and a type are enough.
Array described_array(const Argument& at, py::handle object) {
  const py::object description = describe_array(object);
  check_type(!description.is_none(), at.call.op, ": ", at.field, " (", at.name, ") is ",
             type_name(object), "; it must be an array, or have shape and dtype");
  const auto [type, shape, strides, address, device] =
      description.cast<std::tuple<std::string, py::object, py::object, uintptr_t, int>>();
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
  if (call.is_explained) return described_array({call, field, name, "description"}, object);
  const Argument at{call, field, name};
  if (!PyType_Check(object.ptr())) {  // a type has its instances' methods
    if (std::optional<Array> array = dlpack_array(at, object)) return *std::move(array);
    if (const py::object found = attribute(object, "__cuda_array_interface__"))
      return interface_array(at, object, found);
  }
  refuse_type(call.op, ": ", field, " (", name, ") is ", type_name(object),
              "; it must be an array: NumPy's, or one with __dlpack__ or "
              "__cuda_array_interface__");
}

namespace {

/// Whether a library allocated what it was asked for.
bool is_as_asked(const Array& array, const TensorDesc& desc) {
  bool same = array.view.sizes == desc.sizes && array.view.dtype == desc.dtype &&
              !array.is_read_only && !array.is_copy;
  for (int d = 0; same && d < desc.rank(); ++d)
    same = desc.sizes[d] <= 1 || count(desc.sizes) == 0 || array.view.strides[d] == desc.strides[d];
  return same;
}

/// `desc` in memory of the library that `like` is of, or in memory for it to import.
Array allocated_array(Call& call, const char* field, py::handle like, const TensorDesc& desc) {
  if (std::optional<Array> made = allocated_by_table(call, like, desc)) return *std::move(made);
  const py::object object = allocate_like(call, like, desc);
  if (object.is_none()) return exported_array(call, desc);
  Array result = foreign_array(call, field, "a new array", object);
  check_type(is_as_asked(result, desc), call.op, ": ", field, " cannot be allocated like ",
             type_name(like), " with sizes ", desc.sizes, " and strides ", desc.strides,
             "; pass out");
  static_cast<TensorDesc&>(result.view) = desc;  // with the plan's strides where none matter
  return result;
}

}  // namespace

Array new_foreign_array(Call& call, const char* field, py::handle like, const TensorDesc& desc) {
  Array result = allocated_array(call, field, like, desc);
  if (!call.place.is_cuda())
    ask_for_large_pages(result.view.data, count(desc.sizes) * int64_t(size_of(desc.dtype)));
  return result;
}

py::object import_result(Call& call, const Array& output) {
  return import_like(call, output.view, call.library, output.keep);
}

}  // namespace cudml::bindings
