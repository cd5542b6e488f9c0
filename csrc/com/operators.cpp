// Compiled operators: bindings against the tensors of the descriptor, then the work.
#include "com/operators.h"

#include <cstring>

#include "cuda/device.h"

namespace cudml::com {
namespace {

uint64_t align_up(uint64_t bytes) {
  constexpr uint64_t kAlignment = DML_PERSISTENT_BUFFER_ALIGNMENT;
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

bool are_apart(const Range& a, const Range& b) {
  const auto p = reinterpret_cast<uintptr_t>(a.data), q = reinterpret_cast<uintptr_t>(b.data);
  return p + a.size <= q || q + b.size <= p;
}

void check_apart(const char* op, const char* field, const Range& range, const Range& kept) {
  check(are_apart(range, kept), op, ": ", field,
        " overlaps the persistent resource; it must not share memory with it");
}

/// What the copies of all owned tensors may come to: far more than there is.
constexpr uint64_t kMostKept = uint64_t{1} << 62;

}  // namespace

CompiledOperator::CompiledOperator(Device& device, std::unique_ptr<library::Compiled> compiled)
    : Child(device), compiled_(std::move(compiled)) {
  for (const directml::Tensor& tensor : compiled_->lowered().tensors) {
    (tensor.is_output ? outputs_ : inputs_).push_back({&tensor, persistent_bytes_});
    if (!tensor.is_owned) continue;
    check(tensor.total_bytes <= kMostKept - persistent_bytes_, compiled_->op(), ": ", tensor.field,
          ".TotalTensorSizeInBytes is ", tensor.total_bytes,
          "; all that is OWNED_BY_DML must not exceed 2^62 bytes");
    persistent_bytes_ += align_up(tensor.total_bytes);
  }
}

DML_BINDING_PROPERTIES CompiledOperator::GetBindingProperties() {
  return {0, uint64_t(compiled_->workspace_bytes()), persistent_bytes_};
}

/// Null for tensors that take no binding.
std::byte* CompiledOperator::address_of(const Slot& slot, const Binding& binding) const {
  const directml::Tensor& tensor = *slot.tensor;
  if (tensor.present && !tensor.is_owned)
    return required(compiled_->op(), tensor.field, binding, tensor.total_bytes);
  check(binding.is_empty(), compiled_->op(), ": ", tensor.field, " is bound; ",
        tensor.present ? "it is OWNED_BY_DML and bound for the initializer only"
                       : "the operator has no such tensor",
        ", so its binding must be of type 0 (NONE)");
  return nullptr;
}

void CompiledOperator::check_count(const char* what, const Slots& slots, size_t count) const {
  if (count == slots.size()) return;
  std::string names;
  for (const Slot& slot : slots) names += join(names.empty() ? "" : ", ", slot.tensor->field);
  refuse(compiled_->op(), ": bindingCount is ", count, "; it must be ", slots.size(),
         ", the number of ", what, " (", names, ")");
}

void CompiledOperator::check_input_count(size_t count) const {
  check_count("inputs", inputs_, count);
}

void CompiledOperator::check_output_count(size_t count) const {
  check_count("outputs", outputs_, count);
}

void CompiledOperator::check_tensors(const Slots& slots,
                                     const std::vector<Binding>& bindings) const {
  for (size_t i = 0; i < slots.size(); ++i) address_of(slots[i], bindings[i]);
}

void CompiledOperator::check_inputs(const std::vector<Binding>& inputs) const {
  check_input_count(inputs.size());
  check_tensors(inputs_, inputs);
}

void CompiledOperator::check_outputs(const std::vector<Binding>& outputs) const {
  check_output_count(outputs.size());
  check_tensors(outputs_, outputs);
}

void CompiledOperator::dispatch(const Bound& bound, void* stream) {
  const char* op = compiled_->op();
  check(is_initialized_, op,
        ": the operator is not initialized; an IDMLOperatorInitializer with it must be dispatched "
        "once before it is executed");
  check_inputs(bound.inputs);
  check_outputs(bound.outputs);
  std::byte* persistent = nullptr;
  if (persistent_bytes_)
    persistent = required(op, "the persistent resource", bound.persistent, persistent_bytes_);
  std::vector<const void*> inputs;
  for (size_t i = 0; i < inputs_.size(); ++i)
    if (inputs_[i].tensor->present)
      inputs.push_back(inputs_[i].tensor->is_owned ? persistent + inputs_[i].persistent_offset
                                                   : address_of(inputs_[i], bound.inputs[i]));
  std::vector<void*> outputs;
  for (size_t o = 0; o < outputs_.size(); ++o) {
    if (!outputs_[o].tensor->present) continue;
    std::byte* const output = address_of(outputs_[o], bound.outputs[o]);
    // Where an output may be its input, too: it would be gone for the next dispatch.
    check_apart(op, outputs_[o].tensor->field, {output, outputs_[o].tensor->total_bytes},
                kept_in(bound.persistent));
    outputs.push_back(output);
  }
  library::Arguments arguments{inputs, outputs};
  arguments.stream = stream;
  if (const auto bytes = uint64_t(compiled_->workspace_bytes())) {
    arguments.workspace = required(op, "the temporary resource", bound.temporary, bytes);
    arguments.workspace_bytes = bound.temporary.range().size;
  }
  compiled_->execute(arguments);
}

void CompiledOperator::check_initialization(const Binding& inputs,
                                            const Binding& persistent) const {
  const char* op = compiled_->op();
  if (persistent_bytes_ == 0) {
    check(inputs.is_empty(), op,
          ": inputs are bound for the initializer; no input is OWNED_BY_DML, so the binding must "
          "be of type 0 (NONE)");
    return;
  }
  required(op, "the persistent resource, the initializer's output,", persistent, persistent_bytes_);
  check(inputs.type == DML_BINDING_TYPE_BUFFER_ARRAY && inputs.ranges.size() == inputs_.size(), op,
        ": the initializer's binding is no array of the operator's inputs; it must be a "
        "BUFFER_ARRAY with ",
        inputs_.size(), " bindings");
  for (size_t i = 0; i < inputs_.size(); ++i) {
    const bool is_owned = inputs_[i].tensor->is_owned;
    const Range& range = inputs.ranges[i];
    check(is_owned || !range.data, op, ": ", inputs_[i].tensor->field,
          " is bound for the initializer; it is not OWNED_BY_DML, so its Buffer must be null");
    if (!is_owned) continue;
    required(op, inputs_[i].tensor->field, {DML_BINDING_TYPE_BUFFER, {range}},
             inputs_[i].tensor->total_bytes);
  }
}

Range CompiledOperator::kept_in(const Binding& persistent) const {
  return persistent_bytes_ ? Range{persistent.range().data, persistent_bytes_} : Range{};
}

void CompiledOperator::check_owned_apart(const Binding& inputs, const Range& kept) const {
  for (size_t i = 0; i < inputs_.size(); ++i)
    if (const directml::Tensor& tensor = *inputs_[i].tensor; tensor.is_owned)
      check_apart(compiled_->op(), tensor.field, {inputs.ranges[i].data, tensor.total_bytes}, kept);
}

void CompiledOperator::initialize(const Binding& inputs, const Binding& persistent, void* stream) {
  for (size_t i = 0; i < inputs_.size(); ++i) {
    const directml::Tensor& tensor = *inputs_[i].tensor;
    if (!tensor.is_owned) continue;
    std::byte* const to = persistent.range().data + inputs_[i].persistent_offset;
    if (device().is_cpu()) {
      std::memcpy(to, inputs.ranges[i].data, tensor.total_bytes);
      continue;
    }
    const cuda::DeviceGuard guard(compiled_->place().device);
    cuda::copy(to, inputs.ranges[i].data, int64_t(tensor.total_bytes), stream);
  }
  is_initialized_ = true;
}

Initializer::Initializer(Device& device, UINT count, IDMLCompiledOperator* const* operators)
    : Child(device) {
  constexpr const char* kWhat = "IDMLOperatorInitializer: operators";
  check(operators || count == 0, kWhat, " is null; it must point to ", count, " operators");
  for (UINT i = 0; i < count; ++i)
    operators_.emplace_back(&own<CompiledOperator>(device, operators[i], kWhat, "[", i, "]"));
}

HRESULT Initializer::Reset(UINT count, IDMLCompiledOperator* const* operators) {
  return device().attempt([&] {
    const auto other = Ref<Initializer>::adopt(new Initializer(device(), count, operators));
    operators_ = other->operators_;
    return S_OK;
  });
}

void Initializer::check_input_count(size_t count) const {
  check(count == operators_.size(), "IDMLOperatorInitializer: bindingCount is ", count,
        "; it must be ", operators_.size(), ", the number of operators");
}

void Initializer::check_output_count(size_t count) const {
  check_input_count(count);  // one persistent resource per operator
}

void Initializer::check_inputs(const std::vector<Binding>& inputs) const {
  check_input_count(inputs.size());
}

void Initializer::check_outputs(const std::vector<Binding>& outputs) const {
  check_output_count(outputs.size());
}

/// No operator's copies are written over another one's, or over what is still to be copied.
void Initializer::check_kept_apart(const std::vector<Binding>& inputs,
                                   const std::vector<Binding>& outputs) const {
  for (size_t o = 0; o < operators_.size(); ++o) {
    const Range kept = operators_[o]->kept_in(outputs[o]);
    for (size_t i = 0; i < operators_.size(); ++i)
      operators_[i]->check_owned_apart(inputs[i], kept);
    for (size_t other = 0; other < o; ++other)
      check(are_apart(kept, operators_[other]->kept_in(outputs[other])),
            "IDMLOperatorInitializer: the persistent resources of operators[", other,
            "] and operators[", o, "] overlap; each operator must have its own");
  }
}

void Initializer::dispatch(const Bound& bound, void* stream) {
  check(!device().is_cpu() || !stream, "IDMLOperatorInitializer: stream is ", stream,
        "; on the CPU it must be null");
  // Nothing bound at all is right where no operator owns an input.
  std::vector<Binding> inputs = bound.inputs, outputs = bound.outputs;
  if (inputs.empty()) inputs.resize(operators_.size());
  if (outputs.empty()) outputs.resize(operators_.size());
  check_inputs(inputs);
  check_outputs(outputs);
  for (size_t i = 0; i < operators_.size(); ++i)
    operators_[i]->check_initialization(inputs[i], outputs[i]);
  check_kept_apart(inputs, outputs);
  for (size_t i = 0; i < operators_.size(); ++i)
    operators_[i]->initialize(inputs[i], outputs[i], stream);
}

}  // namespace cudml::com
