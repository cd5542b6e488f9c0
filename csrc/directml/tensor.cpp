// Checks of one tensor descriptor.
#include "directml/tensor.h"

#include <limits>
#include <optional>

namespace cudml::directml {
namespace {

constexpr UINT64 kSaturated = std::numeric_limits<UINT64>::max();
constexpr UINT64 kMaxElements = 0xffffffffu;

UINT64 saturating_multiply(UINT64 a, UINT64 b) {
  UINT64 result;
  return __builtin_mul_overflow(a, b, &result) ? kSaturated : result;
}

UINT64 saturating_add(UINT64 a, UINT64 b) {
  UINT64 result;
  return __builtin_add_overflow(a, b, &result) ? kSaturated : result;
}

constexpr struct {
  DML_TENSOR_DATA_TYPE type;
  Dtype dtype;
} kDtypes[] = {
    {DML_TENSOR_DATA_TYPE_FLOAT32, Dtype::float32}, {DML_TENSOR_DATA_TYPE_FLOAT16, Dtype::float16},
    {DML_TENSOR_DATA_TYPE_FLOAT64, Dtype::float64}, {DML_TENSOR_DATA_TYPE_UINT8, Dtype::uint8},
    {DML_TENSOR_DATA_TYPE_UINT16, Dtype::uint16},   {DML_TENSOR_DATA_TYPE_UINT32, Dtype::uint32},
    {DML_TENSOR_DATA_TYPE_UINT64, Dtype::uint64},   {DML_TENSOR_DATA_TYPE_INT8, Dtype::int8},
    {DML_TENSOR_DATA_TYPE_INT16, Dtype::int16},     {DML_TENSOR_DATA_TYPE_INT32, Dtype::int32},
    {DML_TENSOR_DATA_TYPE_INT64, Dtype::int64},     {kBfloat16, Dtype::bfloat16},
};

/// Nothing for UNKNOWN and the 4-bit types, which no operator here takes.
std::optional<Dtype> dtype_of_value(DML_TENSOR_DATA_TYPE type) {
  for (const auto& row : kDtypes)
    if (row.type == type) return row.dtype;
  return std::nullopt;
}

template <class... Parts>
void require(bool ok, const TensorRule& rule, const Parts&... parts) {
  check(ok, rule.op, ": ", rule.field, parts...);
}

/// What a rule that depends on the level is introduced by.
std::string at_level(const TensorRule& rule) {
  return rule.level ? join("at feature level ", name_of(*rule.level), ' ') : "";
}

const DML_BUFFER_TENSOR_DESC& buffer_of(const TensorRule& rule, const DML_TENSOR_DESC* tensor) {
  require(tensor != nullptr, rule, " is null; the operator requires it");
  require(tensor->Type == DML_TENSOR_TYPE_BUFFER, rule, ".Type is ", int(tensor->Type),
          "; it must be 1 (BUFFER)");
  require(tensor->Desc != nullptr, rule,
          ".Desc is null; it must point to a DML_BUFFER_TENSOR_DESC");
  return *static_cast<const DML_BUFFER_TENSOR_DESC*>(tensor->Desc);
}

void check_type_and_flags(const TensorRule& rule, const DML_BUFFER_TENSOR_DESC& buffer) {
  const char* name = name_of(buffer.DataType);
  require(name && buffer.DataType != DML_TENSOR_DATA_TYPE_UNKNOWN, rule, ".DataType is ",
          name ? name : std::to_string(int(buffer.DataType)), "; it must be one of ",
          names_of(rule.types));
  check_type(rule.types >> buffer.DataType & 1, rule.op, ": ", rule.field, ".DataType is ", name,
             "; ", at_level(rule), "it must be one of ", names_of(rule.types));
  const unsigned flags = unsigned(buffer.Flags);
  require(flags <= DML_TENSOR_FLAG_OWNED_BY_DML, rule, ".Flags is ", flags,
          "; it must be 0 (NONE) or 1 (OWNED_BY_DML)");
  require(flags == DML_TENSOR_FLAG_NONE || !rule.is_output, rule,
          ".Flags is 1 (OWNED_BY_DML); of an output it must be 0 (NONE)");
}

void check_sizes(const TensorRule& rule, const DML_BUFFER_TENSOR_DESC& buffer) {
  require(buffer.DimensionCount >= rule.min_rank && buffer.DimensionCount <= rule.max_rank, rule,
          ".DimensionCount is ", buffer.DimensionCount, "; ", at_level(rule), "it must be ",
          rule.min_rank == rule.max_rank ? join(rule.min_rank)
                                         : join("between ", rule.min_rank, " and ", rule.max_rank));
  require(buffer.Sizes != nullptr, rule, ".Sizes is null; it must point to ", buffer.DimensionCount,
          " sizes");
  UINT64 elements = 1;
  for (UINT d = 0; d < buffer.DimensionCount; ++d) {
    require(buffer.Sizes[d] != 0, rule, ".Sizes[", d,
            "] is 0; a zero-sized dimension is not allowed, it must be between 1 and 4294967295");
    elements = saturating_multiply(elements, buffer.Sizes[d]);
  }
  if (elements <= kMaxElements) return;
  Dims sizes;
  for (UINT d = 0; d < buffer.DimensionCount; ++d) sizes.push_back(buffer.Sizes[d]);
  refuse(rule.op, ": ", rule.field, ".Sizes is ", sizes,
         "; a tensor has at most 4294967295 elements");
}

/// Names the stride that reaches furthest.
void refuse_extent(const TensorRule& rule, const DML_BUFFER_TENSOR_DESC& buffer) {
  const auto reach = [&](UINT d) { return UINT64{buffer.Sizes[d] - 1} * buffer.Strides[d]; };
  UINT worst = 0;
  for (UINT d = 1; d < buffer.DimensionCount; ++d)
    if (reach(d) > reach(worst)) worst = d;
  refuse(rule.op, ": ", rule.field, ".Strides[", worst, "] is ", buffer.Strides[worst],
         " and Sizes[", worst, "] is ", buffer.Sizes[worst],
         "; the last element must lie below 2^63 bytes");
}

void check_bytes(const TensorRule& rule, const DML_BUFFER_TENSOR_DESC& buffer) {
  const UINT64 least =
      minimum_tensor_bytes(buffer.DataType, buffer.DimensionCount, buffer.Sizes, buffer.Strides);
  // Without strides 2^32 elements are too few to get there.
  if (least > UINT64(std::numeric_limits<int64_t>::max())) refuse_extent(rule, buffer);
  const UINT64 total = buffer.TotalTensorSizeInBytes;
  require(total >= least, rule, ".TotalTensorSizeInBytes is ", total,
          "; sizes and strides need at least ", least);
  require(total % 4 == 0, rule, ".TotalTensorSizeInBytes is ", total,
          "; it must be a multiple of 4, at least ", least);
  const UINT alignment = buffer.GuaranteedBaseOffsetAlignment;
  const size_t item = size_of(*dtype_of_value(buffer.DataType));
  require(alignment == 0 || ((alignment & (alignment - 1)) == 0 && alignment >= item), rule,
          ".GuaranteedBaseOffsetAlignment is ", alignment,
          "; it must be 0 or a power of two of at least ", item);
}

}  // namespace

DML_TENSOR_DATA_TYPE data_type_of(Dtype dtype) {
  for (const auto& row : kDtypes)
    if (row.dtype == dtype) return row.type;
  return DML_TENSOR_DATA_TYPE_UNKNOWN;
}

const char* type_name(Dtype dtype) {
  const DML_TENSOR_DATA_TYPE type = data_type_of(dtype);
  return type == DML_TENSOR_DATA_TYPE_UNKNOWN ? "" : name_of(type);
}

bool is_present(const DML_TENSOR_DESC* tensor) {
  return tensor && tensor->Type != DML_TENSOR_TYPE_INVALID;
}

UINT64 minimum_tensor_bytes(DML_TENSOR_DATA_TYPE type, UINT rank, const UINT* sizes,
                            const UINT* strides) {
  const auto dtype = dtype_of_value(type);
  if (!dtype) return 0;
  UINT64 elements = 1;  // up to and including the last one
  for (UINT d = 0; d < rank; ++d) {
    if (sizes[d] == 0) return 0;
    elements = strides ? saturating_add(elements, UINT64{sizes[d] - 1} * strides[d])
                       : saturating_multiply(elements, sizes[d]);
  }
  const UINT64 bytes = saturating_multiply(elements, size_of(*dtype));
  return bytes > kSaturated - 3 ? kSaturated : (bytes + 3) / 4 * 4;
}

TensorDesc check_tensor(const TensorRule& rule, const DML_TENSOR_DESC* tensor) {
  const DML_BUFFER_TENSOR_DESC& buffer = buffer_of(rule, tensor);
  check_type_and_flags(rule, buffer);
  check_sizes(rule, buffer);
  check_bytes(rule, buffer);
  TensorDesc desc;
  desc.dtype = *dtype_of_value(buffer.DataType);
  for (UINT d = 0; d < buffer.DimensionCount; ++d) desc.sizes.push_back(buffer.Sizes[d]);
  if (!buffer.Strides) {
    desc.strides = packed_strides(desc.sizes);
    return desc;
  }
  for (UINT d = 0; d < buffer.DimensionCount; ++d) desc.strides.push_back(buffer.Strides[d]);
  return desc;
}

}  // namespace cudml::directml
