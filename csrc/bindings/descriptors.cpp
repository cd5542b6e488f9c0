// Python descriptor objects to structs, field by field as the field tables say.
#include "bindings/descriptors.h"

#include <cmath>
#include <cstring>
#include <string>

#include "bindings/arguments.h"
#include "bindings/text.h"
#include "directml/own.h"
#include "directml/tensor.h"

namespace cudml::bindings {
namespace {

using directml::Field;
using directml::Kind;
using directml::Schema;
using directml::Use;

constexpr Range kAnyUint{0, 0xffffffff};

/// What a UINT of a field may be. Strides of a tensor, unlike an operator's, may be 0; the other
/// zeros are refused with what else is wrong with them.
Range range_of(std::string_view field) {
  const bool is_tensor = field.find('.') != field.npos;
  const bool is_step = field == "Strides" && !is_tensor;
  const bool is_positive = is_step || field.ends_with("Sizes") || field == "WindowSize" ||
                           field == "Dilations" || field == "P";
  return is_positive ? Range{0, 0xffffffff, "", 1} : kAnyUint;
}

bool is_a(py::handle object, const char* name) {
  return py::isinstance(object, py::module_::import("cudml.directml").attr(name));
}

const Schema& schema_of(py::handle desc) {
  const py::object name = desc.attr("_dml_name");
  const Schema* schema = nullptr;
  if (py::isinstance<py::str>(name)) {
    schema = directml::find_schema(utf8(name));
    if (!schema) schema = directml::find_own(utf8(name));
  }
  check_type(schema, "Operator: desc is ", text_of(desc), " (", type_name(desc),
             "); it must be an operator descriptor of cudml.directml or cudml.descriptors");
  return *schema;
}

/// An enumerator of the named class of cudml.directml, as its number.
UINT enumerator(const char* op, const std::string& field, py::handle value, const char* type) {
  check_type(is_a(value, type), op, ": ", field, " is ", text_of(value), " (", type_name(value),
             "); it must be a ", type, " or the name of one");
  return UINT(py::cast<long long>(py::int_(py::reinterpret_borrow<py::object>(value))));
}

BOOL boolean(const char* op, const char* field, py::handle value) {
  const bool is_bool = PyBool_Check(value.ptr()) ||
                       py::isinstance(value, py::module_::import("numpy").attr("bool_"));
  if (is_bool) return PyObject_IsTrue(value.ptr()) == 1;
  return BOOL(whole_number(op, field, value, {INT32_MIN, 0xffffffff}));
}

FLOAT number(const char* op, const std::string& field, py::handle value) {
  if (field != "PaddingValue") {
    const double exact = real_number(op, field.c_str(), value);
    check(!std::isfinite(exact) || std::isfinite(FLOAT(exact)), op, ": ", field, " is ",
          text_of(value), "; it must be finite as a FLOAT, at most 3.4028235e+38");
    return FLOAT(exact);
  }
  FLOAT result;
  std::memcpy(&result, constant_value(op, value, Dtype::float32).bytes, sizeof result);
  return result;
}

Dtype dtype_of_value(py::handle type) {
  constexpr Dtype kByValue[] = {Dtype::float32, Dtype::float32, Dtype::float16, Dtype::uint32,
                                Dtype::uint16,  Dtype::uint8,   Dtype::int32,   Dtype::int16,
                                Dtype::int8,    Dtype::float64, Dtype::uint64,  Dtype::int64};
  const auto value = py::cast<size_t>(py::int_(py::reinterpret_borrow<py::object>(type)));
  return kByValue[value < std::size(kByValue) ? value : 0];
}

/// PADDING1's constant: eight raw bytes, or a number in the type that PaddingValueDataType names.
DML_SCALAR_UNION scalar(const char* op, py::handle desc) {
  DML_SCALAR_UNION result{};
  const py::object value = desc.attr("PaddingValue"), type = desc.attr("PaddingValueDataType");
  if (PyBytes_Check(value.ptr())) {
    check(PyBytes_GET_SIZE(value.ptr()) == 8, op, ": PaddingValue is ",
          PyBytes_GET_SIZE(value.ptr()), " bytes; it must be a number or 8 bytes");
    std::memcpy(result.Bytes, PyBytes_AS_STRING(value.ptr()), 8);
    return result;
  }
  const bool is_constant = py::cast<int>(py::int_(desc.attr("PaddingMode"))) == 0;
  if (is_constant)  // ignored in every other mode (D-PAD-7)
    std::memcpy(result.Bytes, constant_value(op, value, dtype_of_value(type)).bytes, 8);
  return result;
}

/// The array that a count field speaks of.
const char* counted_array(const Schema& schema, const char* count) {
  size_t f = 0;
  while (std::string_view(schema.fields[f].name) != count) ++f;
  return schema.fields[f + 1].name;
}

template <class T>
void put(void* place, T value) {
  std::memcpy(place, &value, sizeof value);
}

}  // namespace

template <class T>
T* DescriptorArena::make(size_t count) {
  void* memory = memory_.allocate(sizeof(T) * std::max<size_t>(count, 1), alignof(T));
  return static_cast<T*>(std::memset(memory, 0, sizeof(T) * count));
}

const UINT* DescriptorArena::array(const char* op, const char* field, py::handle values, UINT count,
                                   const char* count_field) {
  if (values.is_none()) return nullptr;
  check_type(PyTuple_Check(values.ptr()), op, ": ", field, " is ", text_of(values), " (",
             type_name(values), "); it must be a sequence of ints");
  const auto entries = py::reinterpret_borrow<py::tuple>(values);
  check(entries.size() == count, op, ": ", field, " has ", entries.size(), " entries; ",
        count_field, " is ", count);
  UINT* copy = make<UINT>(count);
  for (UINT i = 0; i < count; ++i)
    copy[i] = UINT(whole_number(op, join(field, '[', i, ']'), entries[i], range_of(field)));
  return copy;
}

UINT DescriptorArena::count_of(const Schema& schema, const char* field, py::handle desc) {
  const py::object given = desc.attr(field);
  if (!given.is_none()) return UINT(whole_number(schema.name, field, given, kAnyUint));
  const py::object values = desc.attr(counted_array(schema, field));
  return PyTuple_Check(values.ptr()) ? UINT(PyTuple_GET_SIZE(values.ptr())) : 0;
}

const DML_TENSOR_DESC* DescriptorArena::tensor(const char* op, const char* field,
                                               py::handle object) {
  if (object.is_none()) return nullptr;
  check_type(is_a(object, "BufferTensorDesc"), op, ": ", field, " is ", text_of(object), " (",
             type_name(object), "); it must be a BufferTensorDesc");
  const auto name = [&](const char* member) { return join(field, '.', member); };
  auto* buffer = make<DML_BUFFER_TENSOR_DESC>();
  const UINT type = enumerator(op, name("DataType"), object.attr("DataType"), "TensorDataType");
  buffer->DataType = DML_TENSOR_DATA_TYPE(type);
  buffer->Flags = DML_TENSOR_FLAGS(whole_number(op, name("Flags"), object.attr("Flags"), kAnyUint));
  const py::object sizes = object.attr("Sizes");
  buffer->DimensionCount = PyTuple_Check(sizes.ptr()) ? UINT(PyTuple_GET_SIZE(sizes.ptr())) : 0;
  const auto count = name("DimensionCount");
  check_type(!sizes.is_none(), op, ": ", name("Sizes"), " is None; it must be a sequence of ints");
  buffer->Sizes = array(op, name("Sizes").c_str(), sizes, buffer->DimensionCount, count.c_str());
  buffer->Strides = array(op, name("Strides").c_str(), object.attr("Strides"),
                          buffer->DimensionCount, count.c_str());
  const py::object total = object.attr("TotalTensorSizeInBytes");
  buffer->TotalTensorSizeInBytes =
      total.is_none()
          ? directml::minimum_tensor_bytes(buffer->DataType, buffer->DimensionCount, buffer->Sizes,
                                           buffer->Strides)
          : UINT64(whole_number(op, name("TotalTensorSizeInBytes"), total, {0, INT64_MAX}));
  buffer->GuaranteedBaseOffsetAlignment =
      UINT(whole_number(op, name("GuaranteedBaseOffsetAlignment"),
                        object.attr("GuaranteedBaseOffsetAlignment"), kAnyUint));
  auto* wrapper = make<DML_TENSOR_DESC>();
  *wrapper = {DML_TENSOR_TYPE_BUFFER, buffer};
  return wrapper;
}

void DescriptorArena::fill(const Schema& schema, size_t index, py::handle desc, void* place,
                           const char* op, const std::string& prefix) {
  const char* name = schema.fields[index].name;
  const std::string full_name = prefix + name;
  const char* field = full_name.c_str();
  const py::object value = desc.attr(name);
  switch (schema.fields[index].kind) {
    case Kind::input:
    case Kind::optional_input:
    case Kind::output:
    case Kind::optional_output: return put(place, tensor(op, field, value));
    case Kind::count: return put(place, count_of(schema, name, desc));
    case Kind::array: {
      size_t c = index;
      while (schema.fields[c].kind != Kind::count) --c;
      UINT count;  // as it stands in the struct: asked again, it may be another
      std::memcpy(&count,
                  static_cast<char*>(place) - offset_of(schema, index) + offset_of(schema, c),
                  sizeof count);
      return put(place, array(op, field, value, count, schema.fields[c].name));
    }
    case Kind::uint: return put(place, UINT(whole_number(op, field, value, range_of(name))));
    case Kind::boolean: return put(place, boolean(op, field, value));
    case Kind::number: return put(place, number(op, full_name, value));
    case Kind::mode: return put(place, enumerator(op, field, value, "PaddingMode"));
    case Kind::data_type: return put(place, enumerator(op, field, value, "TensorDataType"));
    case Kind::scalar: return put(place, scalar(op, desc));
    case Kind::activation: return put(place, activation(op, value));
    case Kind::real: return put(place, real_number(op, field, value));
    case Kind::own_activation: return put(place, own_activation(op, value));
  }
}

const DML_OPERATOR_DESC* DescriptorArena::activation(const char* op, py::handle object) {
  if (object.is_none()) return nullptr;
  check_type(is_a(object, "OperatorDesc"), op, ": FusedActivation is ", text_of(object), " (",
             type_name(object), "); it must be an activation descriptor or None");
  auto* fused = make<DML_OPERATOR_DESC>();
  const auto [schema, desc] = convert(object, op, "FusedActivation.");
  *fused = {schema->type, desc};
  return fused;
}

const Activation* DescriptorArena::own_activation(const char* op, py::handle object) {
  auto* copy = make<Activation>();
  *copy = bindings::activation(op, object);
  return copy;
}

Described DescriptorArena::convert(py::handle desc, const char* op, const std::string& prefix) {
  const Schema& schema = schema_of(desc);
  const size_t bytes = directml::offset_of(schema, schema.fields.size());
  auto* memory = make<UINT64>(bytes / sizeof(UINT64) + 1);
  // An operator in an activation's place is refused by its type alone.
  const size_t fields = prefix.empty() || schema.use == Use::fusable ? schema.fields.size() : 0;
  for (size_t f = 0; f < fields; ++f)
    fill(schema, f, desc, reinterpret_cast<char*>(memory) + directml::offset_of(schema, f),
         op ? op : schema.name, prefix);
  return {&schema, memory};
}

Described DescriptorArena::described(py::handle desc) { return convert(desc, nullptr, ""); }

}  // namespace cudml::bindings
