// Calls of compiled operators: each array against its tensor descriptor, then the work.
#include "bindings/compiled.h"

#include <algorithm>
#include <bit>
#include <stdexcept>
#include <utility>
#include <variant>

#include "bindings/exchange.h"
#include "bindings/explain.h"
#include "bindings/text.h"
#include "bindings/unlocked.h"
#include "cuda/backend.h"
#include "cuda/operator_range.h"

namespace cudml::bindings {
namespace {

using directml::Tensor;

constexpr uintptr_t kWorkspaceAlignment = 64;  // of a compiled operator's own on the CPU

/// The strides of an array must be the descriptor's wherever there is more than one element.
void check_strides(const char* op, const Tensor& tensor, const Array& array, py::handle object) {
  const auto item = int64_t(size_of(tensor.desc.dtype));
  for (int d = 0; d < tensor.desc.rank(); ++d) {
    const int64_t wanted = tensor.desc.strides[d];
    const int64_t bytes = array.source ? array.view.strides[d] * item
                                       : py::reinterpret_borrow<py::array>(object).strides(d);
    if (tensor.desc.sizes[d] == 1 || bytes == wanted * item) continue;
    refuse(op, ": ", tensor.field, ".Strides[", d, "] of the array is ",
           bytes % item ? join(bytes, " bytes") : join(bytes / item), "; the descriptor says ",
           wanted);
  }
}

void check_against(const char* op, const Tensor& tensor, const TensorView& view) {
  check_type(view.dtype == tensor.desc.dtype, op, ": ", tensor.field, ".DataType of the array is ",
             name_of(view.dtype), "; the descriptor says ", name_of(tensor.desc.dtype));
  check(view.rank() == tensor.desc.rank(), op, ": ", tensor.field, ".Sizes of the array are ",
        view.sizes, "; the descriptor says ", tensor.desc.sizes);
  for (int d = 0; d < view.rank(); ++d)
    check(view.sizes[d] == tensor.desc.sizes[d], op, ": ", tensor.field, ".Sizes[", d,
          "] of the array is ", view.sizes[d], "; the descriptor says ", tensor.desc.sizes[d]);
}

Array checked_input(Call& call, const Tensor& tensor, const char* name, py::handle object) {
  Array array = input_array(call, tensor.field, name, object);
  check_against(call.op, tensor, array.view);
  check_strides(call.op, tensor, array, object);
  if (array.source || array.keep.ptr() == object.ptr()) return array;
  // Copied because its address is odd; the plan needs the copy at the descriptor's strides.
  py::array copy = strided_array(py::reinterpret_borrow<py::dtype>(array.dtype), tensor.desc);
  py::module_::import("numpy").attr("copyto")(copy, array.keep);
  const Footprint footprint = array.footprint;
  array = view_of(std::move(copy), tensor.desc);
  array.footprint = footprint;
  return array;
}

Array checked_output(Call& call, const Tensor& tensor, const char* name, py::handle object) {
  Array array =
      output_array(call, tensor.field, name, object, tensor.desc.dtype, tensor.desc.sizes);
  check_strides(call.op, tensor, array, object);
  return array;
}

struct Keywords {
  py::object out = py::none(), workspace = py::none(), stream = py::none();
};

Keywords read_keywords(const char* op, const py::kwargs& keywords) {
  Keywords result;
  for (auto [key, value] : keywords) {
    const auto name = utf8(key);
    py::object* place = name == "out"         ? &result.out
                        : name == "workspace" ? &result.workspace
                        : name == "stream"    ? &result.stream
                                              : nullptr;
    check_type(place, op, ": unexpected keyword argument '", name,
               "'; the keywords are out, workspace and stream");
    *place = py::reinterpret_borrow<py::object>(value);
  }
  return result;
}

}  // namespace

CompiledOperator::CompiledOperator(std::shared_ptr<const directml::Lowered> lowered, Place place)
    : lowered_(std::move(lowered)), place_(place) {
  for (const Tensor& tensor : lowered_->tensors)
    if (tensor.present) (tensor.is_output ? outputs_ : inputs_).push_back(&tensor);
  if (place_.is_cuda())
    choose_kernels();
  else
    workspace_bytes_ =
        std::visit([](const auto& plan) { return cpu_workspace_bytes(plan); }, lowered_->plan);
  for (const Tensor* tensor : outputs_) dtypes_.push_back(numpy_dtype(tensor->desc.dtype));
}

/// A kernel for every alignment that addresses can have, so that calls only look it up.
void CompiledOperator::choose_kernels() {
  situation_ = cuda::situation_of_device(place_.device);
  for (int log = int(choices_.size()) - 1; log >= 0; --log) {
    cuda::Situation situation = situation_;
    situation.alignment = int64_t(1) << log;
    try {
      choices_[size_t(log)] =
          std::visit([&](const auto& plan) { return cuda::choose(lowered_->op, plan, situation); },
                     lowered_->plan);
    } catch (const std::invalid_argument&) {  // the forced kernel cannot take such addresses
      if (situation.alignment == situation_.alignment) throw;
      continue;
    }
    workspace_bytes_ = std::max(workspace_bytes_, choices_[size_t(log)]->geometry.workspace_bytes);
  }
  const cuda::DeviceGuard guard(place_.device);
  device_memory_ = cuda::OwnedMemory(workspace_bytes_);
}

std::string CompiledOperator::repr() const {
  std::string text = join("<cudml.CompiledOperator ", lowered_->op, " on ", name_of(place_), ":");
  for (const auto* tensors : {&inputs_, &outputs_})
    for (const Tensor* tensor : *tensors)
      text += join(' ', tensor->field, ' ', name_of(tensor->desc.dtype), tensor->desc.sizes);
  return text + join(", workspace_bytes ", workspace_bytes_, ">");
}

py::object CompiledOperator::explain() const {
  Call call(lowered_->op, py::none(), place_);
  call.is_explained = true;
  call.is_place_forced = true;
  call.device_name = name_of(place_);
  if (place_.is_cuda()) call.situation = situation_;
  return std::visit([&](const auto& plan) { return explained(call, plan, Operands{}); },
                    lowered_->plan);
}

std::vector<Array> CompiledOperator::read_inputs(Call& call, const py::args& arguments) const {
  const char* op = lowered_->op;
  if (arguments.size() != inputs_.size()) {
    std::string names;
    for (const Tensor* tensor : inputs_) names += join(names.empty() ? "" : ", ", tensor->field);
    refuse_type(op, ": ", arguments.size(), " inputs are given; the descriptor has ",
                inputs_.size(), " (", names, ")");
  }
  std::vector<Array> inputs;
  for (size_t i = 0; i < inputs_.size(); ++i)
    inputs.push_back(
        checked_input(call, *inputs_[i], join("inputs[", i, "]").c_str(), arguments[i]));
  return inputs;
}

std::vector<Array> CompiledOperator::read_outputs(Call& call, const py::object& out) const {
  std::vector<Array> outputs(outputs_.size());
  if (out.is_none()) return outputs;
  const char* op = lowered_->op;
  if (outputs_.size() == 1) {
    outputs[0] = checked_output(call, *outputs_[0], "out", out);
    return outputs;
  }
  const bool is_sequence = PyTuple_Check(out.ptr()) || PyList_Check(out.ptr());
  check_type(is_sequence && size_t(PySequence_Size(out.ptr())) == outputs_.size(), op,
             ": out is no pair; the descriptor has ", outputs_.size(),
             " outputs, so it must be a tuple of as many arrays");
  const auto arrays = py::tuple(py::reinterpret_borrow<py::sequence>(out));
  for (size_t i = 0; i < outputs_.size(); ++i)
    outputs[i] = checked_output(call, *outputs_[i], join("out[", i, "]").c_str(), arrays[i]);
  return outputs;
}

void CompiledOperator::check_overlap(const std::vector<Array>& inputs,
                                     const std::vector<Array>& outputs,
                                     const Workspace& workspace) const {
  const char* op = lowered_->op;
  const bool in_place = std::holds_alternative<MvnDesc>(lowered_->desc);
  for (size_t o = 0; o < outputs.size(); ++o) {
    if (!outputs[o].keep) continue;
    for (size_t i = 0; i < inputs.size(); ++i)
      if (!(in_place && i == 0 && is_alias(outputs[o].view, inputs[i].view)))
        check_no_overlap(op, outputs_[o]->field, outputs[o].footprint, inputs_[i]->field,
                         inputs[i].footprint);
    for (size_t other = 0; other < o; ++other)
      check_no_overlap(op, outputs_[o]->field, outputs[o].footprint, outputs_[other]->field,
                       outputs[other].footprint);
    if (workspace.is_given())
      check_no_overlap(op, outputs_[o]->field, outputs[o].footprint, "workspace",
                       workspace.footprint());
  }
  for (size_t i = 0; workspace.is_given() && i < inputs.size(); ++i)
    check_no_overlap(op, "workspace", workspace.footprint(), inputs_[i]->field,
                     inputs[i].footprint);
}

Operands CompiledOperator::operands_of(const std::vector<Array>& inputs,
                                       const std::vector<Array>& outputs) const {
  Operands o;
  o.x = inputs[0].view.data;
  o.y = outputs[0].view.data;
  if (outputs.size() > 1) o.indices = outputs[1].view.data;
  if (const auto* plan = std::get_if<PoolGradPlan>(&lowered_->plan)) {
    o.second = inputs.back().view.data;
    if (plan->forward.kind != PoolKind::max) o.x = nullptr;
  } else if (const auto* plan = std::get_if<MvnPlan>(&lowered_->plan)) {
    if (plan->has_scale) o.second = inputs[1].view.data;
    if (plan->has_bias) o.third = inputs.back().view.data;
  }
  return o;
}

void CompiledOperator::log(const Call& call, const Operands& operands) const {
  std::vector<NamedTensor> tensors;
  for (const auto* side : {&inputs_, &outputs_})
    for (const Tensor* tensor : *side) tensors.push_back({tensor->field, &tensor->desc});
  const Explanation explanation = std::visit(
      [&](const auto& plan) {
        if (!place_.is_cuda()) return explain_cpu(plan);
        cuda::Situation situation = situation_;
        situation.alignment = operands.alignment();
        const auto& choice = choices_[size_t(std::countr_zero(uint64_t(situation.alignment)))];
        return explain_cuda(plan, situation,
                            choice ? *choice : cuda::choose(call.op, plan, situation));
      },
      lowered_->plan);
  log_call(call, explanation, tensors);
}

void CompiledOperator::run_on_cpu(const Operands& operands, void* workspace) {
  const auto launch = [&](void* memory) {
    std::visit([&](const auto& plan) { run_cpu(plan, operands, memory); }, lowered_->plan);
  };
  const Unlocked unlocked;
  if (workspace || workspace_bytes_ == 0) return launch(workspace);
  const std::lock_guard lock(own_workspace_);
  if (memory_.empty()) memory_.resize(size_t(workspace_bytes_) + kWorkspaceAlignment);
  const auto address = reinterpret_cast<uintptr_t>(memory_.data());
  const uintptr_t aligned = (address + kWorkspaceAlignment - 1) & ~(kWorkspaceAlignment - 1);
  launch(reinterpret_cast<void*>(aligned));
}

void CompiledOperator::run_on_cuda(const Call& call, const Operands& operands, void* workspace) {
  cuda::Situation situation = situation_;
  situation.alignment = operands.alignment();
  const auto& known = choices_[size_t(std::countr_zero(uint64_t(situation.alignment)))];
  const auto launch = [&](void* memory) {
    const cuda::Target target{place_.device, call.stream, memory};
    std::visit(
        [&](const auto& plan) {
          // Without a known one the forced kernel cannot run, and this says why.
          const cuda::Choice choice = known ? *known : cuda::choose(call.op, plan, situation);
          run_cuda(plan, choice, operands, target);
        },
        lowered_->plan);
  };
  const Unlocked unlocked;
  const cuda::OperatorRange range(call.op);
  const cuda::DeviceGuard guard(place_.device);
  if (workspace || workspace_bytes_ == 0) return launch(workspace);
  const std::lock_guard lock(own_workspace_);
  device_memory_.enter(call.stream);
  launch(device_memory_.data());
  device_memory_.leave(call.stream);
}

void CompiledOperator::run(const Call& call, const Operands& operands, void* workspace) {
  if (is_logging()) log(call, operands);
  if (!place_.is_cuda()) return run_on_cpu(operands, workspace);
  try {
    run_on_cuda(call, operands, workspace);
  } catch (const cuda::Error& error) {
    throw error.prefixed(join(call.op, ": "));
  }
}

void CompiledOperator::allocate(Call& call, const std::vector<Array>& inputs,
                                std::vector<Array>& outputs) const {
  for (size_t o = 0; o < outputs.size(); ++o) {
    if (outputs[o].keep) continue;
    const Tensor& tensor = *outputs_[o];
    if (inputs[0].source)
      outputs[o] = new_foreign_array(call, tensor.field, inputs[0].source, tensor.desc);
    else
      outputs[o] = view_of(
          strided_array(py::reinterpret_borrow<py::dtype>(dtypes_[o]), tensor.desc), tensor.desc);
  }
}

py::object CompiledOperator::call(const py::args& arguments, const py::kwargs& keywords) {
  const char* op = lowered_->op;
  const Keywords options = read_keywords(op, keywords);
  Call call(op, options.stream, place_);
  call.check_stream();
  const std::vector<Array> inputs = read_inputs(call, arguments);
  std::vector<Array> outputs = read_outputs(call, options.out);
  const Workspace workspace(call, options.workspace, workspace_bytes_);
  check_overlap(inputs, outputs, workspace);
  allocate(call, inputs, outputs);
  run(call, operands_of(inputs, outputs), workspace.data());
  if (!options.out.is_none()) return options.out;
  if (outputs.size() == 1) return outputs[0].keep;
  return py::make_tuple(outputs[0].keep, outputs[1].keep);
}

}  // namespace cudml::bindings
