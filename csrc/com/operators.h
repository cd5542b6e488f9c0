// Operators, compiled operators and their initializers.
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "com/dispatchable.h"
#include "library/compiled.h"

namespace cudml::com {

class Operator final : public Child<IDMLOperator> {
 public:
  Operator(Device& device, std::shared_ptr<const library::Operator> lowered)
      : Child(device), lowered_(std::move(lowered)) {}

  const std::shared_ptr<const library::Operator>& lowered() const { return lowered_; }

 private:
  std::shared_ptr<const library::Operator> lowered_;
};

/// Inputs that are OWNED_BY_DML are copied into the persistent resource by the initializer and read
/// there by every execution.
class CompiledOperator final : public Child<IDMLCompiledOperator, IDMLDispatchable, IDMLPageable>,
                               public Dispatchable {
 public:
  CompiledOperator(Device& device, std::unique_ptr<library::Compiled> compiled);

  DML_BINDING_PROPERTIES GetBindingProperties() override;

  Device& device() const override { return Child::device(); }
  uint64_t output_alignment() const override { return DML_MINIMUM_BUFFER_TENSOR_ALIGNMENT; }
  void check_input_count(size_t count) const override;
  void check_output_count(size_t count) const override;
  void check_inputs(const std::vector<Binding>& inputs) const override;
  void check_outputs(const std::vector<Binding>& outputs) const override;
  void dispatch(const Bound& bound, void* stream) override;

  /// What the initializer copies: `inputs` is an array with a buffer for each owned input.
  void check_initialization(const Binding& inputs, const Binding& persistent) const;
  /// The bytes that it writes, none where no input is owned.
  Range kept_in(const Binding& persistent) const;
  /// Refuses an input that it copies and that shares memory with what is kept, of any operator.
  void check_owned_apart(const Binding& inputs, const Range& kept) const;
  void initialize(const Binding& inputs, const Binding& persistent, void* stream);

 private:
  /// A tensor of the descriptor, absent ones included; where its copy lies if it is owned.
  struct Slot {
    const directml::Tensor* tensor;
    uint64_t persistent_offset;
  };
  using Slots = std::vector<Slot>;

  std::byte* address_of(const Slot& slot, const Binding& binding) const;
  void check_count(const char* what, const Slots& slots, size_t count) const;
  void check_tensors(const Slots& slots, const std::vector<Binding>& bindings) const;

  std::unique_ptr<library::Compiled> compiled_;
  Slots inputs_, outputs_;
  uint64_t persistent_bytes_ = 0;
  std::atomic<bool> is_initialized_ = false;
};

class Initializer final : public Child<IDMLOperatorInitializer, IDMLDispatchable, IDMLPageable>,
                          public Dispatchable {
 public:
  Initializer(Device& device, UINT count, IDMLCompiledOperator* const* operators);

  DML_BINDING_PROPERTIES GetBindingProperties() override { return {0, 0, 0}; }
  HRESULT Reset(UINT count, IDMLCompiledOperator* const* operators) override;

  Device& device() const override { return Child::device(); }
  uint64_t output_alignment() const override { return DML_PERSISTENT_BUFFER_ALIGNMENT; }
  void check_input_count(size_t count) const override;
  void check_output_count(size_t count) const override;
  void check_inputs(const std::vector<Binding>& inputs) const override;
  void check_outputs(const std::vector<Binding>& outputs) const override;
  void dispatch(const Bound& bound, void* stream) override;

 private:
  void check_kept_apart(const std::vector<Binding>& inputs,
                        const std::vector<Binding>& outputs) const;

  std::vector<Ref<CompiledOperator>> operators_;
};

}  // namespace cudml::com
