// A lowered operator planned for one device, called with arrays any number of times.
#pragma once

#include <pybind11/pybind11.h>

#include <array>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "bindings/arrays.h"
#include "bindings/run.h"
#include "bindings/workspace.h"
#include "directml/lower.h"

namespace cudml::bindings {

/// May be called from any number of threads.
class CompiledOperator {
 public:
  CompiledOperator(std::shared_ptr<const directml::Lowered> lowered, Place place);

  int64_t workspace_bytes() const { return workspace_bytes_; }
  std::string repr() const;
  py::object explain() const;
  py::object call(const py::args& arguments, const py::kwargs& keywords);

 private:
  using Choices = std::array<std::optional<cuda::Choice>, 9>;  // by the addresses' alignment, log2

  void choose_kernels();
  std::vector<Array> read_inputs(Call& call, const py::args& arguments) const;
  std::vector<Array> read_outputs(Call& call, const py::object& out) const;
  void allocate(Call& call, const std::vector<Array>& inputs, std::vector<Array>& outputs) const;
  void check_overlap(const std::vector<Array>& inputs, const std::vector<Array>& outputs,
                     const Workspace& workspace) const;
  Operands operands_of(const std::vector<Array>& inputs, const std::vector<Array>& outputs) const;
  void run(const Call& call, const Operands& operands, void* workspace);
  void run_on_cpu(const Operands& operands, void* workspace);
  void run_on_cuda(const Call& call, const Operands& operands, void* workspace);
  void log(const Call& call, const Operands& operands) const;

  std::shared_ptr<const directml::Lowered> lowered_;
  Place place_;
  cuda::Situation situation_;  // of a GPU
  Choices choices_;
  int64_t workspace_bytes_ = 0;
  std::vector<const directml::Tensor*> inputs_, outputs_;
  std::vector<py::object> dtypes_;  // NumPy's, of the outputs
  std::mutex own_workspace_;
  std::vector<char> memory_;  // behind the workspace of callers who bring none
  cuda::OwnedMemory device_memory_;
};

}  // namespace cudml::bindings
