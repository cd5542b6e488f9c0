// What each feature level takes, and the names of levels and types.
#include <algorithm>

#include "directml/schema.h"

namespace cudml::directml {
namespace {

constexpr DML_FEATURE_LEVEL k1_0 = DML_FEATURE_LEVEL_1_0, k2_0 = DML_FEATURE_LEVEL_2_0,
                            k2_1 = DML_FEATURE_LEVEL_2_1, k3_0 = DML_FEATURE_LEVEL_3_0,
                            k3_1 = DML_FEATURE_LEVEL_3_1, k4_0 = DML_FEATURE_LEVEL_4_0,
                            k4_1 = DML_FEATURE_LEVEL_4_1, k5_0 = DML_FEATURE_LEVEL_5_0,
                            k5_1 = DML_FEATURE_LEVEL_5_1, k6_2 = DML_FEATURE_LEVEL_6_2,
                            k6_3 = DML_FEATURE_LEVEL_6_3;

constexpr TypeSet set_of(auto... types) { return ((TypeSet{1} << types) | ...); }

constexpr TypeSet kFloats = set_of(DML_TENSOR_DATA_TYPE_FLOAT32, DML_TENSOR_DATA_TYPE_FLOAT16);
constexpr TypeSet kBytes = set_of(DML_TENSOR_DATA_TYPE_INT8, DML_TENSOR_DATA_TYPE_UINT8);
constexpr TypeSet kSmallIntegers =
    kBytes | set_of(DML_TENSOR_DATA_TYPE_INT32, DML_TENSOR_DATA_TYPE_INT16,
                    DML_TENSOR_DATA_TYPE_UINT32, DML_TENSOR_DATA_TYPE_UINT16);
constexpr TypeSet kIntegers =
    kSmallIntegers | set_of(DML_TENSOR_DATA_TYPE_INT64, DML_TENSOR_DATA_TYPE_UINT64);
constexpr TypeSet kAllTypes = kFloats | kIntegers | set_of(DML_TENSOR_DATA_TYPE_FLOAT64);
constexpr TypeSet kIndex32 = set_of(DML_TENSOR_DATA_TYPE_UINT32);
constexpr TypeSet kIndices = kIndex32 | set_of(DML_TENSOR_DATA_TYPE_UINT64);

// Newest level first within an operator: the first row that a level reaches holds.
constexpr Support kSupport[] = {
    {DML_OPERATOR_MAX_POOLING, k5_0, 4, 5, kFloats | kIntegers, 0},
    {DML_OPERATOR_MAX_POOLING, k3_0, 4, 5, kFloats | kBytes, 0},
    {DML_OPERATOR_MAX_POOLING, k1_0, 4, 5, kFloats, 0},
    {DML_OPERATOR_MAX_POOLING1, k5_0, 4, 5, kFloats | kIntegers, kIndices},
    {DML_OPERATOR_MAX_POOLING1, k3_0, 4, 5, kFloats | kBytes, kIndex32},
    {DML_OPERATOR_MAX_POOLING1, k2_0, 4, 5, kFloats, kIndex32},
    {DML_OPERATOR_MAX_POOLING2, k5_0, 4, 5, kFloats | kIntegers, kIndices},
    {DML_OPERATOR_MAX_POOLING2, k3_0, 4, 5, kFloats | kBytes, kIndex32},
    {DML_OPERATOR_MAX_POOLING2, k2_1, 4, 5, kFloats, kIndex32},
    {DML_OPERATOR_MAX_POOLING_GRAD, k4_0, 4, 5, kFloats, 0},
    {DML_OPERATOR_MAX_POOLING_GRAD, k3_0, 4, 4, kFloats, 0},
    {DML_OPERATOR_MAX_UNPOOLING, k5_0, 4, 4, kFloats | kIntegers, kIndices},
    {DML_OPERATOR_MAX_UNPOOLING, k2_0, 4, 4, kFloats, kIndex32},
    {DML_OPERATOR_AVERAGE_POOLING, k1_0, 4, 5, kFloats, 0},
    {DML_OPERATOR_AVERAGE_POOLING1, k6_2, 4, 5, kFloats, 0},
    {DML_OPERATOR_AVERAGE_POOLING_GRAD, k3_0, 4, 5, kFloats, 0},
    {DML_OPERATOR_LP_POOLING, k1_0, 4, 5, kFloats, 0},
    {DML_OPERATOR_LP_POOLING1, k6_2, 4, 5, kFloats, 0},
    {DML_OPERATOR_PADDING, k5_0, 1, 8, kAllTypes, 0},
    {DML_OPERATOR_PADDING, k3_1, 1, 8, kFloats | kSmallIntegers, 0},
    {DML_OPERATOR_PADDING, k2_1, 4, 5, kFloats | kSmallIntegers, 0},
    {DML_OPERATOR_PADDING, k1_0, 4, 5, kFloats, 0},
    {DML_OPERATOR_PADDING1, k5_0, 1, 8, kAllTypes, 0},
    {DML_OPERATOR_MEAN_VARIANCE_NORMALIZATION, k1_0, 4, 4, kFloats, 0},
    {DML_OPERATOR_MEAN_VARIANCE_NORMALIZATION1, k3_1, 1, 8, kFloats, 0},
    {DML_OPERATOR_MEAN_VARIANCE_NORMALIZATION1, k2_1, 4, 4, kFloats, 0},
    {DML_OPERATOR_MEAN_VARIANCE_NORMALIZATION2, k6_3, 1, 8, kFloats, 0},
    {DML_OPERATOR_BATCH_NORMALIZATION, k3_1, 1, 8, kFloats, 0},
    {DML_OPERATOR_BATCH_NORMALIZATION, k1_0, 4, 4, kFloats, 0},
    {DML_OPERATOR_BATCH_NORMALIZATION_GRAD, k3_1, 1, 8, kFloats, 0},
    {DML_OPERATOR_BATCH_NORMALIZATION_TRAINING_GRAD, k4_1, 1, 8, kFloats, 0},
};

constexpr struct {
  DML_TENSOR_DATA_TYPE type;
  const char* name;
} kTypeNames[] = {
    {DML_TENSOR_DATA_TYPE_FLOAT32, "FLOAT32"},
    {DML_TENSOR_DATA_TYPE_FLOAT16, "FLOAT16"},
    {DML_TENSOR_DATA_TYPE_FLOAT64, "FLOAT64"},
    {DML_TENSOR_DATA_TYPE_INT64, "INT64"},
    {DML_TENSOR_DATA_TYPE_INT32, "INT32"},
    {DML_TENSOR_DATA_TYPE_INT16, "INT16"},
    {DML_TENSOR_DATA_TYPE_INT8, "INT8"},
    {DML_TENSOR_DATA_TYPE_UINT64, "UINT64"},
    {DML_TENSOR_DATA_TYPE_UINT32, "UINT32"},
    {DML_TENSOR_DATA_TYPE_UINT16, "UINT16"},
    {DML_TENSOR_DATA_TYPE_UINT8, "UINT8"},
    {DML_TENSOR_DATA_TYPE_UINT4, "UINT4"},
    {DML_TENSOR_DATA_TYPE_INT4, "INT4"},
    {DML_TENSOR_DATA_TYPE_UNKNOWN, "UNKNOWN"},
    {kBfloat16, "BFLOAT16"},
};

constexpr struct {
  DML_FEATURE_LEVEL level;
  const char* name;
} kLevelNames[] = {
    {k1_0, "1_0"},
    {k2_0, "2_0"},
    {k2_1, "2_1"},
    {k3_0, "3_0"},
    {k3_1, "3_1"},
    {k4_0, "4_0"},
    {k4_1, "4_1"},
    {k5_0, "5_0"},
    {k5_1, "5_1"},
    {DML_FEATURE_LEVEL_5_2, "5_2"},
    {DML_FEATURE_LEVEL_6_0, "6_0"},
    {DML_FEATURE_LEVEL_6_1, "6_1"},
    {k6_2, "6_2"},
    {k6_3, "6_3"},
    {DML_FEATURE_LEVEL_6_4, "6_4"},
};

}  // namespace

TypeSet all_types() { return kAllTypes | set_of(kBfloat16); }

const Support& support_at(DML_OPERATOR_TYPE type, DML_FEATURE_LEVEL level) {
  return *std::find_if(std::begin(kSupport), std::end(kSupport),
                       [&](const Support& row) { return row.type == type && row.level <= level; });
}

const char* name_of(DML_TENSOR_DATA_TYPE type) {
  for (const auto& row : kTypeNames)
    if (row.type == type) return row.name;
  return nullptr;
}

const char* name_of(DML_FEATURE_LEVEL level) {
  for (const auto& row : kLevelNames)
    if (row.level == level) return row.name;
  return nullptr;
}

std::string names_of(TypeSet types) {
  std::string names;
  for (const auto& row : kTypeNames)
    if (types >> row.type & 1) names += (names.empty() ? "" : ", ") + std::string(row.name);
  return names;
}

std::string level_names() {
  std::string names;
  for (const auto& row : kLevelNames) names += (names.empty() ? "" : ", ") + std::string(row.name);
  return names;
}

}  // namespace cudml::directml
