// NumPy arrays to tensors and back; other libraries' go to exchange.h.
#include "bindings/arrays.h"

#include <algorithm>
#include <atomic>
#include <string>
#include <vector>

#include "bindings/exchange.h"
#include "bindings/imported.h"
#include "bindings/libraries.h"
#include "bindings/objects.h"
#include "bindings/text.h"

namespace cudml::bindings {
namespace {

bool is_masked(py::handle object) {
  const py::handle array_type = made_once([] { return from_numpy("ndarray"); });
  if ((PyObject*)Py_TYPE(object.ptr()) == array_type.ptr()) return false;
  return py::isinstance(object, from_numpy("ma").attr("MaskedArray"));
}

/// A NumPy array whose elements all count.
py::array require_numpy(const char* op, const char* field, const char* name, py::handle object) {
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
std::optional<Dims> element_strides(const NumpyMemory& memory, int64_t item) {
  if (reinterpret_cast<uintptr_t>(memory.data()) % item) return std::nullopt;
  Dims strides = memory.byte_strides();
  for (int d = 0; d < strides.rank; ++d) {
    if (strides[d] < 0 || strides[d] % item) return std::nullopt;
    strides[d] /= item;
  }
  return strides;
}

/// The memory an array covers, reversed dimensions turned round.
Footprint footprint_of_array(const NumpyMemory& memory, const Dims& sizes, int64_t item) {
  Footprint f{reinterpret_cast<uintptr_t>(memory.data()), item, sizes, memory.byte_strides()};
  for (int d = 0; d < sizes.rank; ++d) {
    if (f.strides[d] >= 0) continue;
    f.base += (sizes[d] - 1) * f.strides[d];
    f.strides[d] = -f.strides[d];
  }
  return f;
}

Dtype require_dtype(const char* op, const char* field, const char* name, const py::array& array) {
  const auto dtype = dtype_from_numpy(array.dtype());
  if (!dtype)
    refuse_type(op, ": ", field, ".DataType (", name, ") is ", shown(utf8(py::str(array.dtype()))),
                "; it must be one of ", kTakenTypes, " in native byte order");
  return *dtype;
}

/// ml_dtypes registers its type with NumPy under a number that holds for the whole process. The
/// name tells which type that is, at the price of a Python call, so it is asked for once.
bool is_bfloat16(const py::dtype& dtype) {
  constexpr int kFirstRegistered = 256;
  static std::atomic<int> known{0};
  const int number = dtype.num();
  if (number < kFirstRegistered || dtype.itemsize() != 2) return false;
  if (number == known.load(std::memory_order_relaxed)) return true;
  if (utf8(py::str(dtype.attr("name"))) != "bfloat16") return false;
  known.store(number, std::memory_order_relaxed);
  return true;
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
  return is_bfloat16(dtype) ? std::optional(Dtype::bfloat16) : std::nullopt;
}

std::optional<Dtype> dtype_named(std::string_view name) {
  for (int i = 0; i <= int(Dtype::int64); ++i)
    if (name == name_of(Dtype(i))) return Dtype(i);
  return std::nullopt;
}

namespace {

/// What repeats along a dimension, in elements that differ: one.
Dims distinct_sizes(const Dims& sizes, const Dims& strides) {
  Dims distinct = sizes;
  for (int d = 0; d < sizes.rank; ++d)
    if (strides[d] == 0) distinct[d] = std::min<int64_t>(sizes[d], 1);
  return distinct;
}

/// Strides for a copy in the memory order of the array it is of, repeated where that is.
Dims strides_of_copy(const char* op, const char* field, const Array& array) {
  const Dims& steps = array.footprint.strides;
  TensorDesc like{array.view.dtype, distinct_sizes(array.view.sizes, steps), steps};
  TensorDesc copy{like.dtype, like.sizes, Dims::filled(like.rank(), 0)};
  check_extent(op, field, copy);
  const Dims strides = strides_like(like.sizes, like);
  std::transform(steps.begin(), steps.end(), strides.begin(), &copy.strides[0],
                 [](int64_t step, int64_t stride) { return step == 0 ? 0 : stride; });
  return copy.strides;
}

constexpr const char* kChanged =
    ") has been changed by Python code that ran while the call read its arguments";

/// What both sides of a call read of a NumPy array, strides apart.
Array numpy_array(Call& call, const char* field, const char* name, py::handle object) {
  py::array array = require_numpy(call.op, field, name, object);
  call.settle({}, field, name);
  Array result;
  check(call.remembered.is_unchanged(array), call.op, ": ", field, " (", name, kChanged);
  result.origin = NumpyMemory(array);
  result.view.dtype = require_dtype(call.op, field, name, array);
  result.view.sizes = sizes_of(call.op, field, array);
  result.dtype = array.dtype();
  result.view.data = const_cast<void*>(result.origin.data());
  result.keep = std::move(array);
  return result;
}

}  // namespace

Array input_array(Call& call, const char* field, const char* name, py::handle object) {
  if (!py::isinstance<py::array>(object)) return foreign_array(call, field, name, object);
  Array result = numpy_array(call, field, name, object);
  const auto item = int64_t(size_of(result.view.dtype));
  result.footprint = footprint_of_array(result.origin, result.view.sizes, item);
  const auto strides = element_strides(result.origin, item);
  result.is_copy_due = !strides;
  result.view.strides = strides ? *strides : strides_of_copy(call.op, field, result);
  return result;
}

namespace {

/// NumPy arrays of the same sizes and type, by where they begin and their strides in bytes.
struct Side {
  char* data;
  Dims strides;
  py::object keep;

  py::array array(const py::dtype& dtype, const Dims& sizes) const {
    const std::vector<py::ssize_t> shape(sizes.begin(), sizes.end());
    const std::vector<py::ssize_t> steps(strides.begin(), strides.end());
    return {dtype, shape, steps, data, keep};
  }
};

/// In pieces, between which signals are looked at: NumPy ends a copy for none. Their handlers run
/// Python code, so that `check_source` is called then.
template <class Check>
void copy_pieces(const py::dtype& dtype, Dims sizes, const Side& to, const Side& from,
                 const Check& check_source) {
  constexpr int64_t kPiece = 32 << 20;  // bytes: some ten milliseconds
  if (count(sizes) * int64_t(dtype.itemsize()) <= kPiece) {
    const py::array target = to.array(dtype, sizes), source = from.array(dtype, sizes);
    if (py::detail::npy_api::get().PyArray_CopyInto_(target.ptr(), source.ptr()) < 0)
      throw py::error_already_set();
    return;
  }
  const int d = int(std::max_element(sizes.begin(), sizes.end()) - sizes.begin());
  const int64_t whole = sizes[d], half = whole / 2;
  sizes[d] = half;
  copy_pieces(dtype, sizes, to, from, check_source);
  if (PyErr_CheckSignals() != 0) throw py::error_already_set();
  check_source();
  sizes[d] = whole - half;
  copy_pieces(dtype, sizes, {to.data + half * to.strides[d], to.strides, to.keep},
              {from.data + half * from.strides[d], from.strides, from.keep}, check_source);
}

}  // namespace

void make_copy(const char* op, const char* field, const char* name, Array& input) {
  if (!input.is_copy_due) return;
  Pins pins;  // NumPy lets other threads run while it copies
  pins.add(input.keep);
  check_unchanged(op, field, name, input);
  TensorDesc distinct = input.view;
  distinct.sizes = distinct_sizes(input.view.sizes, input.view.strides);
  const auto dtype = py::reinterpret_borrow<py::dtype>(input.dtype);
  py::array copy = strided_array(dtype, distinct);
  Dims strides = distinct.strides;
  for (int d = 0; d < strides.rank; ++d) strides[d] *= int64_t(size_of(distinct.dtype));
  copy_pieces(dtype, distinct.sizes, {static_cast<char*>(copy.mutable_data()), strides, copy},
              {static_cast<char*>(const_cast<void*>(input.origin.data())),
               input.origin.byte_strides(), input.keep},
              [&] { check_unchanged(op, field, name, input); });
  input.view.data = copy.mutable_data();
  input.keep = std::move(copy);
  input.origin = {};
  input.is_copy_due = false;
}

void read_again(Call& call, const char* field, const char* name, const Array& array) {
  if (!array.is_interface) return;
  check(is_as_described({call, field, name}, array), call.op, ": ", field, " (", name, kChanged);
}

void check_unchanged(const char* op, const char* field, const char* name, const Array& array) {
  const bool is_unchanged = array.origin        ? array.origin.is_unchanged()
                            : array.is_borrowed ? is_as_borrowed(array)
                                                : true;
  check(is_unchanged, op, ": ", field, " (", name, kChanged);
}

Array output_array(Call& call, const char* field, const char* name, py::handle object) {
  if (!py::isinstance<py::array>(object)) {
    Array array = foreign_array(call, field, name, object);
    if (array.lease) array.is_read_only |= is_immutable(object);
    return array;
  }
  Array result = numpy_array(call, field, name, object);
  const auto item = int64_t(size_of(result.view.dtype));
  if (const auto strides = element_strides(result.origin, item)) {
    result.view.strides = *strides;
    result.footprint = footprint_of(result.view);
  }
  result.is_read_only = !py::reinterpret_borrow<py::array>(object).writeable();
  return result;
}

void check_output(const char* op, const char* field, const char* name, const Array& output,
                  Dtype dtype, const Dims& sizes) {
  const TensorDesc& actual = output.view;
  check_type(actual.dtype == dtype, op, ": ", field, ".DataType (", name, ") is ",
             name_of(actual.dtype), "; it must be ", name_of(dtype));
  check(actual.rank() == sizes.rank, op, ": ", field, ".Sizes (", name, ") are ", actual.sizes,
        "; they must be ", sizes);
  for (int d = 0; d < sizes.rank; ++d)
    check(actual.sizes[d] == sizes[d], op, ": ", field, ".Sizes[", d, "] (", name, ") is ",
          actual.sizes[d], "; it must be ", sizes[d]);
  check_writable(op, field, name, output);
  if (actual.strides.rank == sizes.rank) return;
  const auto array = py::reinterpret_borrow<py::array>(output.keep);
  const auto item = int64_t(size_of(dtype));
  for (int d = 0; d < sizes.rank; ++d)
    check(sizes[d] <= 1 || (array.strides(d) >= 0 && array.strides(d) % item == 0), op, ": ", field,
          ".Strides[", d, "] (", name, ") is ", array.strides(d),
          " bytes; it must be a multiple of ", item,
          " and not negative: an output must be writable in place");
  refuse(op, ": ", field, " (", name, ") starts at address ", output.view.data,
         "; it must be a multiple of ", item, ": an output must be writable in place");
}

void check_writable(const char* op, const char* field, const char* name, const Array& output) {
  check(!output.is_read_only, op, ": ", field, " (", name, ") is read-only; it must be writable");
  if (output.is_copy)
    throw py::buffer_error(join(op, ": ", field, " (", name, ") is exported as a copy; it must be ",
                                "writable in place"));
}

namespace {

py::object new_numpy_memory(const py::object& dtype, const TensorDesc& desc) {
  const auto& numpy = py::detail::npy_api::get();
  const auto item = Py_intptr_t(size_of(desc.dtype));
  Py_intptr_t shape[kMaxRank], strides[kMaxRank];
  for (int d = 0; d < desc.rank(); ++d) {
    shape[d] = desc.sizes[d];
    strides[d] = desc.strides[d] * item;
  }
  auto array = py::reinterpret_steal<py::object>(
      numpy.PyArray_NewFromDescr_(numpy.PyArray_Type_, py::object(dtype).release().ptr(),
                                  desc.rank(), shape, strides, nullptr, 0, nullptr));
  if (!array) throw py::error_already_set();
  return array;
}

Array new_numpy_array(const py::object& dtype, const TensorDesc& desc) {
  Array result;
  static_cast<TensorDesc&>(result.view) = desc;
  result.keep = new_numpy_memory(dtype, desc);
  result.view.data = py::detail::array_proxy(result.keep.ptr())->data;
  result.dtype = dtype;
  return result;
}

}  // namespace

Array new_array(Call& call, const char* field, const Array& like, const TensorDesc& desc) {
  if (like.source) return new_foreign_array(call, field, like.source, desc);
  const bool is_same = like.view.dtype == desc.dtype;
  return new_numpy_array(is_same ? like.dtype : numpy_dtype(desc.dtype), desc);
}

py::object finished(Call& call, const Array& output) {
  return output.is_exported ? import_result(call, output) : output.keep;
}

py::array strided_array(const py::dtype& dtype, const TensorDesc& desc) {
  std::vector<py::ssize_t> shape, strides;
  const auto item = py::ssize_t(size_of(desc.dtype));
  py::ssize_t elements = 1;
  for (int d = 0; d < desc.rank(); ++d) {
    shape.push_back(desc.sizes[d]);
    strides.push_back(desc.strides[d] * item);
    elements += (desc.sizes[d] - 1) * desc.strides[d];
  }
  if (desc.strides == packed_strides(desc.sizes)) return py::array(dtype, shape);
  const py::array memory(dtype, std::vector<py::ssize_t>{elements});
  return py::array(dtype, shape, strides, memory.data(), memory);
}

Array view_of(py::array array, const TensorDesc& desc) {
  Array result;
  static_cast<TensorDesc&>(result.view) = desc;
  result.view.data = const_cast<void*>(array.data());
  result.footprint = footprint_of(result.view);
  result.dtype = array.dtype();
  result.keep = std::move(array);
  return result;
}

py::object numpy_dtype(Dtype dtype) {
  if (dtype == Dtype::bfloat16)
    return py::module_::import("numpy").attr("dtype")(
        py::module_::import("ml_dtypes").attr("bfloat16"));
  return py::module_::import("numpy").attr("dtype")(name_of(dtype));
}

}  // namespace cudml::bindings
