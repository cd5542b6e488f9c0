// A lowered operator planned for one device, executed on memory any number of times.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "library/operator.h"
#include "library/program.h"

namespace cudml::library {

using HostMemory = std::unique_ptr<std::byte[]>;

/// A tensor of the descriptor that an execution brings memory for.
struct Slot {
  explicit Slot(const directml::Tensor& of);

  const directml::Tensor* tensor;
  uintptr_t span;  // bytes from the first element to the end of the last
};

/// First elements, in the order of the descriptor's fields without those that are absent.
struct Arguments {
  std::span<const void* const> inputs;
  std::span<void* const> outputs;
  void* workspace = nullptr;  // null: memory of the operator's own
  uint64_t workspace_bytes = 0;
  void* stream = nullptr;  // cudaStream_t; null on the CPU, the legacy default stream on a GPU
};

/// May be used from any number of threads.
class Compiled {
 public:
  Compiled(std::shared_ptr<const Operator> lowered, Place place);

  const char* op() const { return lowered_->op; }
  const Operator& lowered() const { return *lowered_; }
  Place place() const { return program_.place(); }
  const Program& program() const { return program_; }
  const std::vector<Slot>& inputs() const { return inputs_; }
  const std::vector<Slot>& outputs() const { return outputs_; }
  int64_t workspace_bytes() const { return program_.workspace_bytes(); }
  int64_t persistent_bytes() const { return 0; }  // no operator keeps anything between executions

  /// For well aligned tensors.
  Explanation explain() const { return program_.explain({}); }
  /// The same in lines of text.
  std::string explained() const;

  /// The dimensions that windows move along; null where nothing is pooled.
  const Dims* pooled_axes() const;

  /// Which tensor the descriptor's inputs and outputs are to the plan.
  Operands operands_of(const void* const* inputs, void* const* outputs) const;

  /// Whether every output is apart from all other tensors by its range of addresses alone.
  bool are_apart(const void* const* inputs, void* const* outputs) const;

  /// The first output of a normalization may be its input.
  bool may_be_in_place() const {
    return std::holds_alternative<MvnDesc>(lowered_->desc) ||
           std::holds_alternative<NormalizeDesc>(lowered_->desc);
  }

  /// The work on operands that are checked, with the caller's workspace or, where it is null, the
  /// operator's own.
  void run(const Operands& operands, void* workspace, void* stream);

  /// The same with every check that addresses allow, under the floating-point state that results
  /// are defined for. On a GPU it is enqueued and nothing waits.
  void execute(const Arguments& arguments);

 private:
  void check(const Arguments& arguments) const;
  void check_overlap(const Arguments& arguments) const;

  std::shared_ptr<const Operator> lowered_;
  Program program_;
  std::vector<Slot> inputs_, outputs_;
  std::mutex own_workspace_;
  HostMemory memory_;  // behind the workspace of callers who bring none
  cuda::OwnedMemory device_memory_;
};

/// What a workspace's address must be a multiple of.
uintptr_t workspace_alignment(Place place);

/// `device` is "cpu", "cuda" (the current device) or "cuda:<number>". Throws std::invalid_argument
/// for another name, cuda::Error where there is no such device.
std::unique_ptr<Compiled> compile(std::shared_ptr<const Operator> lowered,
                                  const std::string& device);

}  // namespace cudml::library
