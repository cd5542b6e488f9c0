// Descriptor objects of cudml.directml and cudml.descriptors as structs.
#pragma once

#include <pybind11/pybind11.h>

#include <memory_resource>
#include <string>

#include "directml/schema.h"

namespace cudml::bindings {

/// A struct's memory, and what lies where in it.
struct Described {
  const directml::Schema* schema;
  const void* desc;
};

/// Owns everything that the structs it hands out point to.
class DescriptorArena {
 public:
  /// An instance of one of the descriptor classes. Checks kinds of objects and the range of a UINT;
  /// what the values mean is for directml::lower to judge.
  Described described(pybind11::handle desc);

 private:
  template <class T>
  T* make(size_t count = 1);
  /// Refusals begin with `op` and the field's name after `prefix`: "FusedActivation." or nothing.
  Described convert(pybind11::handle desc, const char* op, const std::string& prefix);
  void fill(const directml::Schema& schema, size_t index, pybind11::handle desc, void* place,
            const char* op, const std::string& prefix);
  UINT count_of(const directml::Schema& schema, const char* field, pybind11::handle desc);
  const UINT* array(const char* op, const char* field, pybind11::handle values, UINT count,
                    const char* count_field);
  const DML_OPERATOR_DESC* activation(const char* op, pybind11::handle object);
  const Activation* own_activation(const char* op, pybind11::handle object);
  const DML_TENSOR_DESC* tensor(const char* op, const char* field, pybind11::handle object);

  std::pmr::monotonic_buffer_resource memory_;
};

}  // namespace cudml::bindings
