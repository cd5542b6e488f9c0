// The field tables: what each descriptor struct consists of, and which tensors each feature level
// takes. Validation, lowering and the conversion from Python read them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "cudml/DirectML.h"
#include "math/activation.h"

namespace cudml::directml {

enum class Kind : uint8_t {
  input,
  optional_input,
  output,
  optional_output,  // const DML_TENSOR_DESC*
  count,            // UINT: entries of the arrays that follow
  array,            // const UINT*
  uint,             // UINT
  boolean,          // BOOL
  number,           // FLOAT
  mode,             // DML_PADDING_MODE
  data_type,        // DML_TENSOR_DATA_TYPE
  scalar,           // DML_SCALAR_UNION
  activation,       // const DML_OPERATOR_DESC*, optional
  real,             // double, in the library's own descriptions alone, as is what follows
  own_activation,   // const Activation*, optional
};

struct Field {
  const char* name;
  Kind kind;
};

constexpr bool is_input(Kind kind) { return kind == Kind::input || kind == Kind::optional_input; }
constexpr bool is_output(Kind kind) {
  return kind == Kind::output || kind == Kind::optional_output;
}
constexpr bool is_tensor(Kind kind) { return is_input(kind) || is_output(kind); }
constexpr bool is_optional(Kind kind) {
  return kind == Kind::optional_input || kind == Kind::optional_output;
}

enum class Use : uint8_t {
  host,         // an operator of its own
  fusable,      // only as FusedActivation
  not_fusable,  // known by name, always refused
  own           // a description of the library's own: own.h
};

struct Schema {
  DML_OPERATOR_TYPE type;
  const char* name;         // the middle of the struct's name; of an own one the function's
  DML_FEATURE_LEVEL since;  // the level that introduced a host
  Use use;
  size_t size;  // of the struct, in bytes; 0 where there is none
  std::span<const Field> fields;
  ActivationKind activation = ActivationKind::identity;  // of a fusable one
};

/// Where field `index` lies in the struct, in bytes: the fields in order, each at its own
/// alignment.
size_t offset_of(const Schema& schema, size_t index);

/// Null where there is none.
const Schema* find_schema(DML_OPERATOR_TYPE type);
const Schema* find_schema(std::string_view name);
std::span<const Schema> schemas();

/// bfloat16, which DirectML has no number for: for the library's own descriptions alone.
inline constexpr auto kBfloat16 = DML_TENSOR_DATA_TYPE(31);

/// A set of element types: bit n stands for the type of value n.
using TypeSet = uint32_t;

/// Every type that this library has.
TypeSet all_types();

/// Tensors that an operator takes from `level` on.
struct Support {
  DML_OPERATOR_TYPE type;
  DML_FEATURE_LEVEL level;
  UINT min_rank, max_rank;
  TypeSet types, index_types;
};

/// The newest row of the table that `level` reaches; the operator exists at `level`.
const Support& support_at(DML_OPERATOR_TYPE type, DML_FEATURE_LEVEL level);

/// "FLOAT32"; null for a value outside the enumeration.
const char* name_of(DML_TENSOR_DATA_TYPE type);
/// "6_4"; null for a value outside the enumeration.
const char* name_of(DML_FEATURE_LEVEL level);
/// "FLOAT32, FLOAT16", floats before integers.
std::string names_of(TypeSet types);
/// "1_0, 2_0, …".
std::string level_names();

}  // namespace cudml::directml
