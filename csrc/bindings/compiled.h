// A lowered operator planned for one device, called with arrays any number of times.
#pragma once

#include <pybind11/pybind11.h>

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "bindings/arrays.h"
#include "bindings/run.h"
#include "bindings/workspace.h"
#include "library/compiled.h"

namespace cudml::bindings {

/// What a compiled operator is called with; null where an optional one is absent.
struct CallArguments {
  std::span<PyObject* const> inputs;
  py::handle out, workspace, stream;
};

/// May be called from any number of threads.
class CompiledOperator {
 public:
  /// `source` is the Python object whose method `compile` was called.
  CompiledOperator(std::unique_ptr<library::Compiled> compiled, py::object source);

  const char* op() const { return compiled_->op(); }
  int64_t workspace_bytes() const { return compiled_->workspace_bytes(); }
  std::string repr() const;
  py::object explain() const;
  /// What copies and pickles are made by: compiled again, for the same device.
  py::tuple reduced() const;
  py::object call(const CallArguments& arguments);

 private:
  /// A tensor of the descriptor, and how a NumPy array of exactly its kind looks.
  struct Slot {
    const directml::Tensor* tensor;
    py::object dtype;
    Py_intptr_t sizes[kMaxRank], strides[kMaxRank];  // in bytes
    bool is_output;

    explicit Slot(const directml::Tensor& tensor);
    void* address_in(PyObject* object, Place place) const;
  };

  bool is_plain(const CallArguments& arguments, Operands& operands, void*& stream) const;
  std::vector<Array> read_inputs(Call& call, std::span<PyObject* const> arguments) const;
  std::vector<Array> read_outputs(Call& call, py::handle out) const;
  void allocate(Call& call, const std::vector<Array>& inputs, std::vector<Array>& outputs) const;
  void check_overlap(const std::vector<Array>& inputs, const std::vector<Array>& outputs,
                     const Workspace& workspace) const;
  void run(const Call& call, const Operands& operands, void* workspace);
  void make_ready(Call& call, std::vector<Array>& inputs, const std::vector<Array>& outputs,
                  bool are_outputs_given, const Workspace& workspace, Pins& pins) const;
  py::object call_carefully(const CallArguments& arguments);

  std::unique_ptr<library::Compiled> compiled_;
  Place place_;
  py::object source_;
  std::vector<Slot> inputs_, outputs_;
};

/// The Python type of compiled operators.
py::object compiled_type();

/// A compiled operator as a Python object.
py::object to_python(std::shared_ptr<CompiledOperator> op);

}  // namespace cudml::bindings
