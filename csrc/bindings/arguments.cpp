// Python arguments to the fields of a Desc.
#include "bindings/arguments.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "bindings/imported.h"
#include "bindings/objects.h"
#include "bindings/text.h"
#include "ops/activation.h"

namespace cudml::bindings {
std::ostream& operator<<(std::ostream& out, const FieldName& field) {
  out << field.name;
  return field.index < 0 ? out : out << '[' << field.index << ']';
}

int64_t whole_number(const char* op, const FieldName& field, py::handle object, Range range) {
  if (PyLong_CheckExact(object.ptr())) {
    int overflow = 0;
    const long long value = PyLong_AsLongLongAndOverflow(object.ptr(), &overflow);
    if (!overflow && value >= range.least && value <= range.most) return value;
  }
  const py::object index = index_of(object);
  check_type(bool(index), op, ": ", field, " is ", text_of(object), " (", type_name(object),
             "); it must be an int");
  int overflow = 0;
  const long long value = PyLong_AsLongLongAndOverflow(index.ptr(), &overflow);
  check(!overflow && value >= range.least && value <= range.most, op, ": ", field, " is ",
        text_of(index), "; it must be between ", std::max(range.least, range.least_said), " and ",
        range.most, range.hint);
  return value;
}

Dims whole_numbers(const char* op, const char* field, py::handle object, int rank, Range range) {
  Dims all;
  for (int d = 0; d < rank; ++d) all.push_back(d);
  return whole_numbers(op, field, object, all, range);
}

Dims whole_numbers(const char* op, const char* field, py::handle object, const Dims& indices,
                   Range range) {
  const int rank = indices.rank;
  const auto name = [&](int d) { return FieldName(field, rank ? int(indices[d]) : 0); };
  if (PyLong_CheckExact(object.ptr()))
    return Dims::filled(rank, whole_number(op, name(0), object, range));
  if (!is_sequence(object)) {
    const py::object index = index_of(object);  // asked once: it may answer differently later
    check_type(bool(index), op, ": ", field, " is ", text_of(object), " (", type_name(object),
               "); it must be an int or one int per dimension");
    const int64_t value = whole_number(op, name(0), index, range);
    return Dims::filled(rank, value);
  }
  const Py_ssize_t length = length_of(object);
  check(length == rank, op, ": ", field, " has ", length, " entries; DimensionCount is ", rank,
        ", so it must be an int or have ", rank);
  Dims dims;
  const py::tuple values = copy_of(object, length);
  for (int d = 0; d < rank; ++d) dims.push_back(whole_number(op, name(d), values[d], range));
  return dims;
}

Dims whole_shape(const char* op, const char* field, const char* name, py::handle object, int rank,
                 const char* what) {
  check_type(is_sequence(object), op, ": ", field, " (", name, ") is ", text_of(object), " (",
             type_name(object), "); it must be a sequence, ", what);
  const Py_ssize_t length = length_of(object);
  check(length == rank, op, ": ", field, " (", name, ") has ", length,
        " entries; DimensionCount is ", rank, ", so it must have ", rank);
  return whole_numbers(op, field, object, rank, {0, INT64_MAX});
}

bool flag(const char* op, const char* field, py::handle object) {
  check_type(is_bool(object), op, ": ", field, " is ", text_of(object), " (", type_name(object),
             "); it must be True or False");
  return PyObject_IsTrue(object.ptr()) == 1;
}

double real_number(const char* op, const char* field, py::handle given) {
  if (PyFloat_CheckExact(given.ptr())) return PyFloat_AS_DOUBLE(given.ptr());
  py::object number;
  const py::object object = element_of(given);
  if (!is_bool(object) && is_number(object) && !is_unreal(object)) {
    number = py::reinterpret_steal<py::object>(PyNumber_Float(object.ptr()));
    if (!number && PyErr_ExceptionMatches(PyExc_OverflowError)) {
      PyErr_Clear();
      const int negative = PyObject_RichCompareBool(object.ptr(), py::int_(0).ptr(), Py_LT);
      if (negative < 0) throw py::error_already_set();
      return negative ? -HUGE_VAL : HUGE_VAL;
    }
    if (!number && !PyErr_ExceptionMatches(PyExc_TypeError)) throw py::error_already_set();
    PyErr_Clear();
  }
  check_type(bool(number), op, ": ", field, " is ", text_of(given), " (", type_name(given),
             "); it must be a real number");
  return PyFloat_AsDouble(number.ptr());
}

Dims axes_of(const char* op, py::handle axes, int rank) {
  const Range range{-rank, rank - 1};
  const bool several = is_sequence(axes);
  const Py_ssize_t length = several ? length_of(axes) : 1;
  check(length <= kMaxRank, op, ": Axes has ", length, " entries; AxisCount must be between 0 and ",
        rank);
  const py::tuple values = several ? copy_of(axes, length) : py::make_tuple(axes);
  Dims dims;
  for (size_t i = 0; i < values.size(); ++i) {
    const int64_t axis = whole_number(op, FieldName("Axes", int(i)), values[i], range);
    dims.push_back(axis < 0 ? axis + rank : axis);
  }
  return dims;
}

Dims pooled_axes(const char* op, py::handle axes, int rank) {
  const bool takes_axes = bool(axes);
  if (takes_axes && !axes.is_none()) return axes_of(op, axes, rank);
  const bool is_canonical = rank >= 3 && rank <= 5;
  check(is_canonical || takes_axes, op, ": InputTensor.DimensionCount is ", rank,
        "; it must be 3, 4 or 5 ({N,C,spatial})");
  check(is_canonical, op, ": InputTensor.DimensionCount is ", rank,
        "; without axes it must be 3, 4 or 5 ({N,C,spatial}); for other arrays name the pooled "
        "dimensions, as in ",
        op, "(…, axes=(0, 1)) for an image {H,W,C}");
  Dims dims;
  for (int d = 2; d < rank; ++d) dims.push_back(d);
  return dims;
}

void set_output_sizes(PoolDesc& desc, py::handle output_sizes) {
  if (output_sizes.is_none()) return;
  if (py::isinstance<py::str>(output_sizes)) {
    check(is_ascii(output_sizes, "ceil"), desc.op, ": output_sizes is ", text_of(output_sizes),
          "; it must be None, \"ceil\" or one int per pooled dimension");
    desc.output_rule = OutputRule::ceil;
    return;
  }
  desc.output_rule = OutputRule::given;
  desc.output_sizes =
      whole_numbers(desc.op, "OutputTensor.Sizes", output_sizes, desc.axes, kSizeRange);
}

namespace {

/// PyTorch's own element types, which NumPy's dtype() does not take.
bool is_of_torch(py::handle object, Dtype dtype) {
  const py::handle name = made_once([] { return interned("torch"); });
  const auto torch = py::reinterpret_steal<py::object>(PyImport_GetModule(name.ptr()));
  if (!torch && PyErr_Occurred()) throw py::error_already_set();
  return torch && attribute(torch, name_of(dtype)).is(object);
}

}  // namespace

namespace {

/// One of some element types, given as a name or as a dtype of NumPy's or torch's.
std::optional<Dtype> one_of(py::handle object, std::initializer_list<Dtype> permitted) {
  if (PyUnicode_Check(object.ptr()))
    for (const Dtype dtype : permitted)
      if (is_ascii(object, name_of(dtype))) return dtype;
  if (object.is_none()) return std::nullopt;  // NumPy reads it as float64
  const py::handle numpy = made_once([] { return from_numpy("dtype"); });
  const py::object dtype = or_nothing(PyObject_CallOneArg(numpy.ptr(), object.ptr()));
  const auto known = dtype ? dtype_from_numpy(dtype) : std::nullopt;
  for (const Dtype each : permitted)
    if (known ? *known == each : is_of_torch(object, each)) return each;
  return std::nullopt;
}

}  // namespace

Dtype index_dtype(const char* op, py::handle object) {
  if (const auto dtype = one_of(object, {Dtype::uint32, Dtype::uint64, Dtype::int64}))
    return *dtype;
  refuse_type(op, ": index_dtype is ", text_of(object), "; it must be uint32, uint64 or int64");
}

Dtype wide_dtype(const char* op, py::handle object) {
  if (const auto dtype = one_of(object, {Dtype::float32, Dtype::float64})) return *dtype;
  refuse_type(op, ": DataType is ", text_of(object), "; it must be float32 or float64");
}

std::string given_for_several(const char* name, py::handle object) {
  if (!PyTuple_Check(object.ptr()) && !PyList_Check(object.ptr()))
    return join(name, " is ", text_of(object), " (", type_name(object), ')');
  const Py_ssize_t length = PySequence_Fast_GET_SIZE(object.ptr());
  return join(name, " has ", length, length == 1 ? " entry" : " entries");
}

py::tuple entries_of(const char* op, const char* name, py::handle object, int count,
                     const char* what) {
  const bool is_one = (PyTuple_Check(object.ptr()) || PyList_Check(object.ptr())) &&
                      PySequence_Fast_GET_SIZE(object.ptr()) == count;
  if (!is_one)
    refuse_type(op, ": ", given_for_several(name, object), "; it must be a tuple or list of ",
                count, ", ", what);
  py::tuple entries(count);
  for (Py_ssize_t i = 0; i < count; ++i)
    entries[size_t(i)] = py::reinterpret_borrow<py::object>(PySequence_Fast_ITEMS(object.ptr())[i]);
  return entries;
}

std::array<bool, 3> gradients_named(const char* op, py::handle object) {
  constexpr const char* kNames[] = {"x", "scale", "bias"};
  constexpr const char* kRule = "; it must be a sequence of \"x\", \"scale\" and \"bias\"";
  check_type(is_sequence(object), op, ": outputs is ", text_of(object), " (", type_name(object),
             ")", kRule);
  const Py_ssize_t length = length_of(object);
  check(length >= 1 && length <= 3, op, ": outputs has ", length,
        " entries; it must name one at least, and each once");
  std::array<bool, 3> named{};
  const py::tuple entries = copy_of(object, length);
  for (const py::handle entry : entries) {
    check_type(py::isinstance<py::str>(entry), op, ": outputs has ", text_of(entry), " (",
               type_name(entry), ") in it", kRule);
    int found = -1;
    for (int i = 0; i < 3; ++i)
      if (is_ascii(entry, kNames[i])) found = i;
    check(found >= 0 && !named[size_t(std::max(found, 0))], op, ": outputs has ", text_of(entry),
          " in it", found < 0 ? kRule : " twice; each may be named once only");
    named[size_t(found)] = true;
  }
  return named;
}

namespace {

Border border_named(const char* op, const FieldName& field, py::handle name) {
  check_type(py::isinstance<py::str>(name), op, ": ", field, " is ", text_of(name), " (",
             type_name(name), "); it must be a string");
  static constexpr const char* kNames[] = {"constant", "edge", "reflection", "symmetric", "wrap"};
  for (int i = 0; i < 5; ++i)
    if (is_ascii(name, kNames[i])) return Border(i);
  refuse(op, ": ", field, " is ", text_of(name),
         "; it must be constant, edge, reflection, symmetric or wrap");
}

}  // namespace

Border border(const char* op, py::handle mode) { return border_named(op, "PaddingMode", mode); }

void set_modes(PadDesc& desc, py::handle mode, int rank) {
  if (!PyList_Check(mode.ptr()) && !PyTuple_Check(mode.ptr())) {
    const Border border = border_named(desc.op, "PaddingMode", mode);
    for (int d = 0; d < rank; ++d) desc.mode[d] = border;
    return;
  }
  const Py_ssize_t length = length_of(mode);
  check(length == rank, desc.op, ": PaddingMode has ", length, " entries; DimensionCount is ", rank,
        ", so it must be one name or have ", rank);
  const py::tuple names = copy_of(mode, length);
  for (int d = 0; d < rank; ++d)
    desc.mode[d] = border_named(desc.op, FieldName("PaddingMode", d), names[d]);
}

namespace {

template <class T>
PadValue as_bytes(T value) {
  PadValue result;
  std::memcpy(result.bytes, &value, sizeof value);
  return result;
}

/// An exact integer for an integer tensor.
PadValue integer_value(const char* op, const py::object& integer, Dtype dtype) {
  const bool is_signed = dtype >= Dtype::int8;
  const int bits = int(size_of(dtype)) * 8;
  int overflow = 0;
  const long long value = PyLong_AsLongLongAndOverflow(integer.ptr(), &overflow);
  const int64_t most =
      is_signed ? INT64_MAX >> (64 - bits) : INT64_MAX >> (63 - (bits < 64 ? bits : 63));
  const int64_t least = is_signed ? -most - 1 : 0;
  if (!overflow && value >= least && value <= most) return as_bytes(value);
  if (overflow > 0 && dtype == Dtype::uint64) {
    const unsigned long long large = PyLong_AsUnsignedLongLong(integer.ptr());
    if (!PyErr_Occurred()) return as_bytes(large);
    PyErr_Clear();
  }
  const std::string greatest = dtype == Dtype::uint64 ? "18446744073709551615" : join(most);
  refuse(op, ": PaddingValue is ", text_of(integer), "; for ", name_of(dtype),
         " it must be between ", least, " and ", greatest);
}

/// The double from which rounding to any narrower float gives what rounding `number`, a finite
/// value with as_integer_ratio(), would give: rounded to odd. Infinite beyond double's range.
double rounded_to_odd(const py::object& number, double nearest) {
  if (std::isinf(nearest)) return nearest;
  const py::tuple exact = number.attr("as_integer_ratio")();
  const py::tuple near = py::float_(nearest).attr("as_integer_ratio")();
  const py::object left = exact[0] * near[1], right = near[0] * exact[1];
  if (left.equal(right)) return nearest;
  uint64_t bits;
  std::memcpy(&bits, &nearest, sizeof bits);
  if (bits & 1) return nearest;
  return std::nextafter(nearest, left > right ? HUGE_VAL : -HUGE_VAL);
}

/// An int that a double is sure to hold, 0 above all, without a ratio's Python objects.
std::optional<double> exact_double(const py::object& integer) {
  constexpr int64_t kMost = int64_t{1} << 53;
  int overflow = 0;
  const int64_t number = integer ? PyLong_AsLongLongAndOverflow(integer.ptr(), &overflow) : kMost;
  return number > -kMost && number < kMost && !overflow ? std::optional(double(number))
                                                        : std::nullopt;
}

/// The nearest double of an int or of anything with as_integer_ratio(); infinite on overflow.
double nearest_double(const py::object& number) {
  const py::tuple ratio = number.attr("as_integer_ratio")();
  const py::object quotient =
      or_nothing(PyNumber_TrueDivide(py::object(ratio[0]).ptr(), py::object(ratio[1]).ptr()));
  if (!quotient) return py::object(ratio[0]) < py::int_(0) ? -HUGE_VAL : HUGE_VAL;
  const double nearest = PyFloat_AsDouble(quotient.ptr());
  if (PyErr_Occurred()) throw py::error_already_set();  // of parts that are no integers
  return nearest;
}

/// A float that is longer than a double, by its integer part: exact where the type has it, else
/// saturated like a double's. `nearest` is the double beside it.
PadValue truncated_value(const char* op, py::handle value, double nearest, Dtype dtype) {
  const py::int_ part(py::reinterpret_steal<py::object>(PyNumber_Long(value.ptr())));
  if (dtype == Dtype::uint64) {
    const unsigned long long exact = PyLong_AsUnsignedLongLong(part.ptr());
    if (!PyErr_Occurred()) return as_bytes(uint64_t(exact));
    PyErr_Clear();
    return pad_value(op, dtype, nearest);
  }
  int overflow = 0;
  const int64_t exact = PyLong_AsLongLongAndOverflow(part.ptr(), &overflow);
  if (overflow) return pad_value(op, dtype, nearest);
  return dtype == Dtype::int64 ? as_bytes(exact) : pad_value(op, dtype, double(exact));
}

}  // namespace

PadValue constant_value(const char* op, py::handle given, Dtype dtype) {
  const py::object value = element_of(given), integer = index_of(value);
  if (integer && !is_float(dtype)) return integer_value(op, integer, dtype);
  if (const auto exact = exact_double(integer)) return pad_value(op, dtype, *exact);
  if (!integer) {
    const double number = real_number(op, "PaddingValue", value);
    const bool is_exact = PyFloat_Check(value.ptr()) || !std::isfinite(number) ||
                          !attribute(value, "as_integer_ratio");
    if (is_exact) return pad_value(op, dtype, number);
    if (!is_float(dtype)) return truncated_value(op, value, number, dtype);
  }
  const py::object number = integer ? integer : value;
  const double nearest = nearest_double(number);
  return pad_value(op, dtype, dtype == Dtype::float64 ? nearest : rounded_to_odd(number, nearest));
}

std::optional<std::pair<py::object, py::object>> two_of(py::handle object) {
  const bool is_pair = (PyTuple_Check(object.ptr()) || PyList_Check(object.ptr())) &&
                       PySequence_Fast_GET_SIZE(object.ptr()) == 2;
  if (!is_pair) return std::nullopt;
  PyObject* const* entries = PySequence_Fast_ITEMS(object.ptr());
  return std::pair(py::reinterpret_borrow<py::object>(entries[0]),
                   py::reinterpret_borrow<py::object>(entries[1]));
}

Activation activation(const char* op, py::handle object) {
  if (object.is_none()) return {};
  py::object name = py::reinterpret_borrow<py::object>(object), parameters = py::dict();
  if (PyTuple_Check(object.ptr()))
    if (const auto pair = two_of(object)) std::tie(name, parameters) = *pair;
  check_type(py::isinstance<py::str>(name) && py::isinstance<py::dict>(parameters), op,
             ": FusedActivation is ", text_of(object),
             "; it must be None, a name, or (name, {\"alpha\": …})");
  std::vector<std::pair<std::string, double>> arguments;
  // A private copy: the caller's dict may change while __float__ runs.
  const auto held = py::reinterpret_steal<py::dict>(PyDict_Copy(parameters.ptr()));
  if (!held) throw py::error_already_set();
  for (auto [key, value] : held) {
    check_type(py::isinstance<py::str>(key), op, ": FusedActivation has a parameter named ",
               text_of(key), "; names are strings");
    const auto text = utf8(key);
    check(shown(text) == text, op, ": FusedActivation is given ", text_of(key),
          "; no activation has such a parameter");
    arguments.emplace_back(text, real_number(op, ("FusedActivation." + text).c_str(), value));
  }
  const std::string text = utf8(name);
  check(shown(text) == text, op, ": FusedActivation is ", text_of(name),
        "; no activation has such a name");
  return make_activation(op, text, arguments);
}

}  // namespace cudml::bindings
