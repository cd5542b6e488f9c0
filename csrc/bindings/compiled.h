// A lowered operator planned for one device, called with arrays any number of times.
#pragma once

#include <pybind11/pybind11.h>
#include <cstddef>

#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "bindings/arrays.h"
#include "bindings/run.h"
#include "bindings/workspace.h"
#include "directml/lower.h"

namespace cudml::bindings {

/// What a compiled operator is called with; null where an optional one is absent.
struct CallArguments {
  std::span<PyObject* const> inputs;
  py::handle out, workspace, stream;
};

using HostMemory = std::unique_ptr<std::byte[]>;

/// May be called from any number of threads.
class CompiledOperator {
 public:
  CompiledOperator(std::shared_ptr<const directml::Lowered> lowered, Place place);

  const char* op() const { return lowered_->op; }
  int64_t workspace_bytes() const { return program_.workspace_bytes(); }
  std::string repr() const;
  py::object explain() const;
  py::object call(const CallArguments& arguments);

 private:
  static constexpr size_t kMostInputs = 3, kMostOutputs = 2;

  /// A tensor of the descriptor, and how a NumPy array of exactly its kind looks.
  struct Slot {
    const directml::Tensor* tensor;
    py::object dtype;
    Py_intptr_t sizes[kMaxRank], strides[kMaxRank];  // in bytes
    uintptr_t span;  // bytes from the first element to the end of the last
    bool is_output;

    explicit Slot(const directml::Tensor& tensor);
    void* address_in(PyObject* object) const;
  };

  bool is_plain(const CallArguments& arguments, Operands& operands) const;
  std::vector<Array> read_inputs(Call& call, std::span<PyObject* const> arguments) const;
  std::vector<Array> read_outputs(Call& call, py::handle out) const;
  void allocate(Call& call, const std::vector<Array>& inputs, std::vector<Array>& outputs) const;
  void check_overlap(const std::vector<Array>& inputs, const std::vector<Array>& outputs,
                     const Workspace& workspace) const;
  Operands operands_of(std::span<void* const> inputs, std::span<void* const> outputs) const;
  void run(const Call& call, const Operands& operands, void* workspace);
  void make_ready(Call& call, std::vector<Array>& inputs, const std::vector<Array>& outputs,
                  bool are_outputs_given, const Workspace& workspace, Pins& pins) const;
  py::object call_carefully(const CallArguments& arguments);

  std::shared_ptr<const directml::Lowered> lowered_;
  Place place_;
  Program program_;
  std::vector<Slot> inputs_, outputs_;
  std::mutex own_workspace_;
  HostMemory memory_;  // behind the workspace of callers who bring none
  cuda::OwnedMemory device_memory_;
};

/// The Python type of compiled operators.
py::object compiled_type();

/// A compiled operator as a Python object.
py::object to_python(std::shared_ptr<CompiledOperator> op);

}  // namespace cudml::bindings
