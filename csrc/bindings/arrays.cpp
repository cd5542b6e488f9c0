// NumPy arrays to tensors and back.
#include "bindings/arrays.h"

#include <algorithm>
#include <string>

#include "bindings/text.h"

namespace cudml::bindings {
namespace {

constexpr const char* kTakenTypes =
    "float16, bfloat16, float32, float64, uint8, uint16, uint32, uint64, int8, int16, int32, int64";

bool is_masked(py::handle object) {
  static const py::handle array_type =
      py::object(py::module_::import("numpy").attr("ndarray")).release();
  if ((PyObject*)Py_TYPE(object.ptr()) == array_type.ptr()) return false;
  return py::isinstance(object, py::module_::import("numpy").attr("ma").attr("MaskedArray"));
}

py::array require_array(const char* op, const char* field, const char* name, py::handle object) {
  if (!py::isinstance<py::array>(object))
    refuse_type(op, ": ", field, " (", name, ") is ", type_name(object),
                "; it must be a NumPy array");
  if (is_masked(object))
    refuse_type(op, ": ", field, " (", name, ") is a MaskedArray, whose mask would be ignored; ",
                "pass its data or its filled() form");
  return py::reinterpret_borrow<py::array>(object);
}

Dims sizes_of(const char* op, const char* field, const py::array& array) {
  check(array.ndim() >= 1 && array.ndim() <= kMaxRank, op, ": ", field, ".DimensionCount is ",
        array.ndim(), "; it must be between 1 and ", kMaxRank);
  Dims sizes;
  for (py::ssize_t d = 0; d < array.ndim(); ++d) sizes.push_back(array.shape(d));
  return sizes;
}

/// Strides in elements, or nothing where they or the base are negative or no multiple of the item.
std::optional<Dims> element_strides(const py::array& array, int64_t item) {
  if (reinterpret_cast<uintptr_t>(array.data()) % item) return std::nullopt;
  Dims strides;
  for (py::ssize_t d = 0; d < array.ndim(); ++d) {
    const int64_t bytes = array.shape(d) > 1 ? array.strides(d) : 0;
    if (bytes < 0 || bytes % item) return std::nullopt;
    strides.push_back(bytes / item);
  }
  return strides;
}

/// The memory an array covers, reversed dimensions turned round.
Footprint footprint_of_array(const py::array& array, const Dims& sizes, int64_t item) {
  Footprint f{reinterpret_cast<uintptr_t>(array.data()), item, sizes, Dims::filled(sizes.rank, 0)};
  for (int d = 0; d < sizes.rank; ++d) {
    if (sizes[d] <= 1) continue;
    const int64_t stride = array.strides(d);
    f.strides[d] = stride < 0 ? -stride : stride;
    if (stride < 0) f.base += (sizes[d] - 1) * stride;
  }
  return f;
}

Dtype require_dtype(const char* op, const char* field, const char* name, const py::array& array) {
  const auto dtype = dtype_from_numpy(array.dtype());
  if (!dtype)
    refuse_type(op, ": ", field, ".DataType (", name, ") is ", utf8(py::str(array.dtype())),
                "; it must be one of ", kTakenTypes, " in native byte order");
  return *dtype;
}

}  // namespace

std::optional<Dtype> dtype_from_numpy(const py::handle& handle) {
  const auto dtype = py::reinterpret_borrow<py::dtype>(handle);
  if (dtype.byteorder() == '>') return std::nullopt;
  const auto size = dtype.itemsize();
  switch (dtype.kind()) {
    case 'f':
      return size == 4   ? std::optional(Dtype::float32)
             : size == 2 ? std::optional(Dtype::float16)
             : size == 8 ? std::optional(Dtype::float64)
                         : std::nullopt;
    case 'u':
      return size == 1   ? Dtype::uint8
             : size == 2 ? Dtype::uint16
             : size == 4 ? Dtype::uint32
                         : Dtype::uint64;
    case 'i':
      return size == 1   ? Dtype::int8
             : size == 2 ? Dtype::int16
             : size == 4 ? Dtype::int32
                         : Dtype::int64;
    default: break;
  }
  // ml_dtypes registers its type under kind 'V' or 'f'; the name tells it from structures.
  if (size == 2 && utf8(py::str(dtype.attr("name"))) == "bfloat16") return Dtype::bfloat16;
  return std::nullopt;
}

Array input_array(const char* op, const char* field, const char* name, py::handle object) {
  py::array array = require_array(op, field, name, object);
  Array result;
  result.view.dtype = require_dtype(op, field, name, array);
  result.view.sizes = sizes_of(op, field, array);
  result.dtype = array.dtype();
  const auto item = int64_t(size_of(result.view.dtype));
  result.footprint = footprint_of_array(array, result.view.sizes, item);
  auto strides = element_strides(array, item);
  if (!strides) {
    array = py::array(array.attr("copy")("K"));
    strides = element_strides(array, item);
  }
  result.view.strides = *strides;
  result.view.data = const_cast<void*>(array.data());
  result.keep = std::move(array);
  return result;
}

Array output_array(const char* op, const char* field, const char* name, py::handle object,
                   Dtype dtype, const Dims& sizes) {
  py::array array = require_array(op, field, name, object);
  Array result;
  const Dtype actual = require_dtype(op, field, name, array);
  check_type(actual == dtype, op, ": ", field, ".DataType (", name, ") is ", name_of(actual),
             "; it must be ", name_of(dtype));
  result.view.dtype = dtype;
  result.view.sizes = sizes_of(op, field, array);
  check(result.view.sizes.rank == sizes.rank, op, ": ", field, ".Sizes (", name, ") are ",
        result.view.sizes, "; they must be ", sizes);
  for (int d = 0; d < sizes.rank; ++d)
    check(result.view.sizes[d] == sizes[d], op, ": ", field, ".Sizes[", d, "] (", name, ") is ",
          result.view.sizes[d], "; it must be ", sizes[d]);
  check(array.writeable(), op, ": ", field, " (", name, ") is read-only; it must be writable");
  const auto strides = element_strides(array, int64_t(size_of(dtype)));
  check(strides.has_value(), op, ": ", field, ".Strides (", name, ") or its address are negative ",
        "or no multiple of the item size; an output must be writable in place");
  result.view.strides = *strides;
  result.view.data = const_cast<void*>(array.data());
  result.footprint = footprint_of(result.view);
  result.keep = std::move(array);
  result.dtype = py::reinterpret_borrow<py::array>(result.keep).dtype();
  return result;
}

Array new_array(const py::object& dtype, const TensorDesc& desc) {
  const auto item = py::ssize_t(size_of(desc.dtype));
  py::ssize_t shape[kMaxRank], strides[kMaxRank];
  for (int d = 0; d < desc.rank(); ++d) {
    shape[d] = desc.sizes[d];
    strides[d] = desc.strides[d] * item;
  }
  // NumPy allocates row-major and column-major memory itself; any other order is a transposed view.
  int order[kMaxRank];
  for (int d = 0; d < desc.rank(); ++d) order[d] = d;
  std::stable_sort(order, order + desc.rank(),
                   [&](int a, int b) { return strides[a] > strides[b]; });
  py::tuple dense(desc.rank()), back(desc.rank());
  bool is_sorted = true;
  for (int i = 0; i < desc.rank(); ++i) {
    dense[i] = py::int_(shape[order[i]]);
    back[order[i]] = py::int_(i);
    is_sorted &= order[i] == i;
  }
  py::object array = py::module_::import("numpy").attr("empty")(dense, dtype);
  if (!is_sorted) array = array.attr("transpose")(back);
  Array result;
  static_cast<TensorDesc&>(result.view) = desc;
  result.view.data = const_cast<void*>(py::reinterpret_borrow<py::array>(array).data());
  result.footprint = footprint_of(result.view);
  result.keep = std::move(array);
  result.dtype = dtype;
  return result;
}

py::object numpy_dtype(Dtype dtype) {
  if (dtype == Dtype::bfloat16)
    return py::module_::import("numpy").attr("dtype")(
        py::module_::import("ml_dtypes").attr("bfloat16"));
  return py::module_::import("numpy").attr("dtype")(name_of(dtype));
}

}  // namespace cudml::bindings
