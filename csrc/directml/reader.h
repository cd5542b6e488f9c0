// A descriptor struct read by the names of its fields, and the tensors of what it becomes.
#pragma once

#include <cstring>
#include <initializer_list>
#include <optional>
#include <string_view>
#include <vector>

#include "directml/lower.h"
#include "directml/schema.h"

namespace cudml::directml {

class Reader {
 public:
  Reader(const Schema& schema, const void* desc) : schema_(schema), desc_(desc) {}

  const Schema& schema() const { return schema_; }
  const char* op() const { return schema_.name; }
  bool has(std::string_view name) const { return find(name) != schema_.fields.size(); }

  template <class T>
  T get(size_t index) const {
    T value;
    std::memcpy(&value, static_cast<const char*>(desc_) + offset_of(schema_, index), sizeof(T));
    return value;
  }
  template <class T>
  T get(std::string_view name) const {
    return get<T>(find(name));
  }
  /// A BOOL, or `absent` where this version of the operator has no such field.
  bool flag(std::string_view name, bool absent) const {
    return has(name) ? get<BOOL>(name) != FALSE : absent;
  }

 private:
  size_t find(std::string_view name) const;

  const Schema& schema_;
  const void* desc_;
};

/// `count` entries of an array field; one of 1 each where this version has no such field.
Dims entries(const Reader& reader, const char* name, UINT count);

/// Entries of a field that has one for each of the tensors' dimensions, which DimensionCount
/// counts.
UINT dimension_count(const Reader& reader, int rank);

/// The geometry of a pooling of x with these output sizes.
PoolDesc read_pool(const Reader& reader, PoolKind kind, const TensorDesc& x, const TensorDesc& y);

Border read_mode(const Reader& reader, DML_FEATURE_LEVEL level);

/// Axes, or what CrossChannel says.
Dims read_axes(const Reader& reader, int rank);

/// FusedActivation, or the identity.
Activation read_activation(const Reader& host, DML_FEATURE_LEVEL level);

/// What the tensors of a descriptor may be; no level where that does not depend on it.
struct TensorRules {
  std::optional<DML_FEATURE_LEVEL> level;
  UINT min_rank, max_rank;
  TypeSet types, index_types;
};
std::vector<Tensor> read_tensors(const Reader& reader, const TensorRules& rules);

/// Null where it is absent.
const Tensor* find_tensor(const Lowered& lowered, std::string_view field);
const TensorDesc* find(const Lowered& lowered, std::string_view field);

/// All tensors agree in rank, and in type where they are no indices.
void check_agreement(const Lowered& lowered);

/// A plan's operands are not in the order of the descriptor's inputs, but in this one.
void set_operands(Lowered& lowered, std::initializer_list<std::string_view> inputs);

}  // namespace cudml::directml
