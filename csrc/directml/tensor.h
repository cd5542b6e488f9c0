// A DML_TENSOR_DESC on its own: its checks, and the canonical TensorDesc it stands for.
#pragma once

#include <optional>

#include "core/tensor.h"
#include "directml/schema.h"

namespace cudml::directml {

/// What the checks of one tensor need to know: "<op>: <field>.…" begins every refusal.
struct TensorRule {
  const char* op;
  const char* field;
  std::optional<DML_FEATURE_LEVEL> level;  // none: the library's own rule
  UINT min_rank, max_rank;
  TypeSet types;
  bool is_output;
};

/// Neither null nor of type INVALID.
bool is_present(const DML_TENSOR_DESC* tensor);

/// Refuses what the specification's sections 1 and 11 refuse of one tensor.
TensorDesc check_tensor(const TensorRule& rule, const DML_TENSOR_DESC* tensor);

/// DirectML's number of an element type; UNKNOWN where it has none.
DML_TENSOR_DATA_TYPE data_type_of(Dtype dtype);

/// DirectML's name of an element type it has: "FLOAT32".
const char* type_name(Dtype dtype);

/// The least TotalTensorSizeInBytes: the end of the last element, rounded up to 4. Null `strides`
/// mean packed. Computed in 64 bits and saturating; 0 for a type without whole bytes.
UINT64 minimum_tensor_bytes(DML_TENSOR_DATA_TYPE type, UINT rank, const UINT* sizes,
                            const UINT* strides);

}  // namespace cudml::directml
