// Bindings as an application describes them, read into ranges of bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <ostream>
#include <vector>

#include "com/device.h"

namespace cudml::com {

/// The bytes of a bound buffer; without data nothing is bound.
struct Range {
  std::byte* data = nullptr;
  uint64_t size = 0;
};

struct Binding {
  DML_BINDING_TYPE type = DML_BINDING_TYPE_NONE;
  std::vector<Range> ranges;  // one of a BUFFER, any number of a BUFFER_ARRAY

  bool is_empty() const;
  /// A single buffer's bytes, or nothing.
  Range range() const { return type == DML_BINDING_TYPE_BUFFER ? ranges[0] : Range{}; }
};

/// Everything that a binding table holds.
struct Bound {
  std::vector<Binding> inputs, outputs;
  Binding temporary, persistent;
};

/// Which binding a refusal is about: "<method>: bindings[1].Bindings[2]" begins it.
struct Where {
  const char* method;
  std::optional<UINT> binding, entry;  // of several
};
std::ostream& operator<<(std::ostream& out, const Where& where);

/// Buffers must start at multiples of `alignment` bytes, and on a GPU be the device's memory. A
/// null `desc` binds nothing.
Binding read_binding(const Device& device, Where where, const DML_BINDING_DESC* desc,
                     uint64_t alignment);

std::vector<Binding> read_bindings(const Device& device, const char* method, UINT count,
                                   const DML_BINDING_DESC* descs, uint64_t alignment);

/// The bytes of a binding that must be a buffer of at least `bytes`; "<op>: <field>" begins every
/// refusal.
std::byte* required(const char* op, const char* field, const Binding& binding, uint64_t bytes);

}  // namespace cudml::com
