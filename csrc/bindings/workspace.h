// A caller's workspace for one call of a compiled operator.
#pragma once

#include <pybind11/pybind11.h>

#include "bindings/arrays.h"
#include "bindings/call.h"

namespace cudml::bindings {

/// Holds the memory for the length of the call: a writable contiguous buffer for the CPU, an array
/// of the call's device for a GPU. None gives none.
class Workspace {
 public:
  Workspace(Call& call, py::handle object, int64_t bytes);
  ~Workspace();
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;

  bool is_given() const { return is_given_; }
  void* data() const { return data_; }
  py::handle source() const { return array_.source; }  // where it is a library's array

  /// The last steps before work, as for every other array.
  void tell_written() const;
  void pin(Pins& pins) const;
  void read_again(Call& call) const;
  void check_unchanged(const char* op) const;
  Footprint footprint() const {
    return {reinterpret_cast<uintptr_t>(data_), 1, Dims{bytes_}, Dims{1}};
  }

 private:
  void take_buffer(Call& call, py::handle object, int64_t bytes);
  void take_array(Call& call, py::handle object, int64_t bytes);

  Py_buffer buffer_{};
  bool is_buffer_held_ = false;
  Array array_;
  NumpyMemory memory_;  // of a NumPy array, which its buffer does not keep in place
  bool is_given_ = false;
  void* data_ = nullptr;
  int64_t bytes_ = 0;
};

}  // namespace cudml::bindings
