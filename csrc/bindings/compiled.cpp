// Calls of compiled operators: each array against its tensor descriptor, then the work.
#include "bindings/compiled.h"

#include <utility>

#include "bindings/arguments.h"
#include "bindings/exchange.h"
#include "bindings/explain.h"
#include "bindings/imported.h"
#include "bindings/libraries.h"
#include "bindings/text.h"

namespace cudml::bindings {
namespace {

using directml::Tensor;

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
  if (array.is_copy_due) array.view.strides = tensor.desc.strides;  // its address alone is odd
  return array;
}

Array checked_output(Call& call, const Tensor& tensor, const char* name, py::handle object) {
  Array array = output_array(call, tensor.field, name, object);
  check_output(call.op, tensor.field, name, array, tensor.desc.dtype, tensor.desc.sizes);
  check_strides(call.op, tensor, array, object);
  return array;
}

constexpr const char* kInputNames[] = {"inputs[0]", "inputs[1]", "inputs[2]",
                                       "inputs[3]", "inputs[4]", "inputs[5]",
                                       "inputs[6]", "inputs[7]", "inputs[8]"};
constexpr const char* kOutputNames[] = {"out[0]", "out[1]", "out[2]"};
static_assert(std::size(kInputNames) == kMostInputs && std::size(kOutputNames) == kMostOutputs);

/// Whether an object is a tuple or list of so many.
bool has_entries(py::handle object, size_t count) {
  return (PyTuple_Check(object.ptr()) || PyList_Check(object.ptr())) &&
         size_t(PySequence_Fast_GET_SIZE(object.ptr())) == count;
}

}  // namespace

CompiledOperator::Slot::Slot(const Tensor& of)
    : tensor(&of), dtype(numpy_dtype(of.desc.dtype)), is_output(of.is_output) {
  const auto item = int64_t(size_of(of.desc.dtype));
  for (int d = 0; d < of.desc.rank(); ++d) {
    sizes[d] = of.desc.sizes[d];
    strides[d] = of.desc.strides[d] * item;
  }
}

/// Where an array begins that is the descriptor's beyond doubt; null for all others, which
/// may be as good.
void* CompiledOperator::Slot::address_in(PyObject* object, Place place) const {
  const auto& numpy = py::detail::npy_api::get();
  if (Py_TYPE(object) != reinterpret_cast<PyTypeObject*>(numpy.PyArray_Type_))
    return address_by_table(object, tensor->desc, place);
  const auto* array = py::detail::array_proxy(object);
  const int rank = tensor->desc.rank();
  if (array->descr != dtype.ptr() || array->nd != rank) return nullptr;
  for (int d = 0; d < rank; ++d)
    if (array->dimensions[d] != sizes[d] || array->strides[d] != strides[d]) return nullptr;
  constexpr int kAligned = py::detail::npy_api::NPY_ARRAY_ALIGNED_;
  constexpr int kWriteable = py::detail::npy_api::NPY_ARRAY_WRITEABLE_;
  const int wanted = is_output ? kAligned | kWriteable : kAligned;
  return (array->flags & wanted) == wanted ? array->data : nullptr;
}

CompiledOperator::CompiledOperator(std::unique_ptr<library::Compiled> compiled, py::object source)
    : compiled_(std::move(compiled)), place_(compiled_->place()), source_(std::move(source)) {
  for (const auto& slot : compiled_->inputs()) inputs_.emplace_back(*slot.tensor);
  for (const auto& slot : compiled_->outputs()) outputs_.emplace_back(*slot.tensor);
}

std::string CompiledOperator::repr() const {
  std::string text = join("<cudml.CompiledOperator ", op(), " on ", name_of(place_), ":");
  for (const auto* slots : {&inputs_, &outputs_})
    for (const Slot& slot : *slots)
      text += join(' ', slot.tensor->field, ' ', name_of(slot.tensor->desc.dtype),
                   slot.tensor->desc.sizes);
  return text + join(", workspace_bytes ", workspace_bytes(), ">");
}

py::object CompiledOperator::explain() const {
  const py::object none = py::none();
  Call call(op(), none, place_);
  call.pooled_axes = compiled_->pooled_axes();
  return to_python(call, compiled_->explain());
}

py::tuple CompiledOperator::reduced() const {
  return py::make_tuple(source_.attr("compile"), py::make_tuple(name_of(place_)));
}

std::vector<Array> CompiledOperator::read_inputs(Call& call,
                                                 std::span<PyObject* const> arguments) const {
  if (arguments.size() != inputs_.size()) {
    std::string names;
    for (const Slot& slot : inputs_) names += join(names.empty() ? "" : ", ", slot.tensor->field);
    refuse_type(op(), ": ", arguments.size(), " inputs are given; the descriptor has ",
                inputs_.size(), " (", names, ")");
  }
  std::vector<Array> inputs;
  for (size_t i = 0; i < inputs_.size(); ++i)
    inputs.push_back(checked_input(call, *inputs_[i].tensor, kInputNames[i], arguments[i]));
  return inputs;
}

std::vector<Array> CompiledOperator::read_outputs(Call& call, py::handle out) const {
  std::vector<Array> outputs(outputs_.size());
  if (out.is_none()) return outputs;
  if (outputs_.size() == 1) {
    outputs[0] = checked_output(call, *outputs_[0].tensor, "out", out);
    return outputs;
  }
  check_type(has_entries(out, outputs.size()), op(), ": out is no ",
             outputs.size() == 2 ? "pair" : "triple", "; the descriptor has ", outputs.size(),
             " outputs, so it must be a tuple of as many arrays");
  std::vector<py::object> entries;  // a list may change while the arrays are read
  for (size_t o = 0; o < outputs.size(); ++o)
    entries.push_back(
        py::reinterpret_borrow<py::object>(PySequence_Fast_ITEMS(out.ptr())[Py_ssize_t(o)]));
  for (size_t o = 0; o < outputs.size(); ++o)
    outputs[o] = checked_output(call, *outputs_[o].tensor, kOutputNames[o], entries[o]);
  return outputs;
}

void CompiledOperator::check_overlap(const std::vector<Array>& inputs,
                                     const std::vector<Array>& outputs,
                                     const Workspace& workspace) const {
  const char* op = compiled_->op();
  const bool in_place = compiled_->may_be_in_place();
  for (size_t o = 0; o < outputs.size(); ++o) {
    if (!outputs[o].keep) continue;
    for (size_t i = 0; i < inputs.size(); ++i)
      if (!(in_place && i == 0 && is_same(outputs[o], inputs[i])))
        check_no_overlap(op, outputs_[o].tensor->field, outputs[o].footprint,
                         inputs_[i].tensor->field, inputs[i].footprint);
    for (size_t other = 0; other < o; ++other)
      check_no_overlap(op, outputs_[o].tensor->field, outputs[o].footprint,
                       outputs_[other].tensor->field, outputs[other].footprint);
    if (workspace.is_given())
      check_no_overlap(op, outputs_[o].tensor->field, outputs[o].footprint, "workspace",
                       workspace.footprint());
  }
  for (size_t i = 0; workspace.is_given() && i < inputs.size(); ++i)
    check_no_overlap(op, "workspace", workspace.footprint(), inputs_[i].tensor->field,
                     inputs[i].footprint);
}

void CompiledOperator::run(const Call& call, const Operands& operands, void* workspace) {
  run_unlocked(compiled_->program(), [&] { compiled_->run(operands, workspace, call.stream); });
}

void CompiledOperator::allocate(Call& call, const std::vector<Array>& inputs,
                                std::vector<Array>& outputs) const {
  for (size_t o = 0; o < outputs.size(); ++o) {
    if (outputs[o].keep) continue;
    const Slot& slot = outputs_[o];
    const TensorDesc& desc = slot.tensor->desc;
    if (inputs[0].source)
      outputs[o] = new_foreign_array(call, slot.tensor->field, inputs[0].source, desc);
    else
      outputs[o] =
          view_of(strided_array(py::reinterpret_borrow<py::dtype>(slot.dtype), desc), desc);
  }
}

namespace {

bool is_numpy(const PyTypeObject* type) {
  return type == reinterpret_cast<PyTypeObject*>(py::detail::npy_api::get().PyArray_Type_);
}

/// Whether all arrays of another library are read as they lie.
bool are_ready(std::span<PyObject* const> inputs, std::span<PyObject* const> outputs) {
  for (const auto& arrays : {inputs, outputs})
    for (PyObject* const array : arrays)
      if (!is_read_as_it_lies(array)) return false;
  return true;
}

}  // namespace

/// Whether the call is one with arrays that are the descriptor's beyond doubt, `out` among them,
/// and apart from each other; on a GPU, on the stream that is current. Everything else is looked at
/// carefully.
bool CompiledOperator::is_plain(const CallArguments& arguments, Operands& operands,
                                void*& stream) const {
  if (!arguments.workspace.is_none() || !arguments.stream.is_none() || arguments.out.is_none() ||
      arguments.inputs.size() != inputs_.size() || library::is_logging())
    return false;
  void *inputs[kMostInputs], *outputs[kMostOutputs];
  PyTypeObject* const type = Py_TYPE(arguments.inputs[0]);  // of one library
  if (place_.is_cuda() && !has_table(type)) return false;
  PyObject* const out = arguments.out.ptr();
  const bool is_pair = PyTuple_CheckExact(out);
  if (is_pair != (outputs_.size() > 1) ||
      (is_pair && size_t(PyTuple_GET_SIZE(out)) != outputs_.size()))
    return false;
  PyObject* const first_out = is_pair ? PyTuple_GET_ITEM(out, 0) : out;
  const std::span<PyObject* const> outs =
      is_pair ? std::span(PySequence_Fast_ITEMS(out), outputs_.size()) : std::span(&first_out, 1);
  for (const auto& arrays : {arguments.inputs, outs})
    for (PyObject* const array : arrays)
      if (Py_TYPE(array) != type) return false;
  const auto are_there = [&] {
    for (size_t i = 0; i < inputs_.size(); ++i)
      if (!(inputs[i] = inputs_[i].address_in(arguments.inputs[i], place_))) return false;
    for (size_t o = 0; o < outputs_.size(); ++o)
      if (!(outputs[o] = outputs_[o].address_in(outs[o], place_))) return false;
    return compiled_->are_apart(inputs, outputs);
  };
  if (!is_numpy(type) && !are_ready(arguments.inputs, outs)) return false;
  if (!are_there()) return false;
  if (!is_numpy(type)) {  // outputs are told of a call that is accepted, which may run Python code
    for (PyObject* const array : outs) tell_written(array);
    if (!are_there()) return false;
  }
  operands = compiled_->operands_of(inputs, outputs);
  if (!place_.is_cuda()) return true;
  const std::optional<void*> current = stream_by_table(arguments.inputs[0], place_.device);
  stream = current.value_or(nullptr);
  return current.has_value();
}

/// What an accepted call still needs. The arrays are looked at last, after everything that may run
/// Python code: their addresses hold from here on.
void CompiledOperator::make_ready(Call& call, std::vector<Array>& inputs,
                                  const std::vector<Array>& outputs, bool are_outputs_given,
                                  const Workspace& workspace, Pins& pins) const {
  for (const Array& output : outputs)
    if (are_outputs_given && output.source) tell_written(output.source);
  workspace.tell_written();
  std::vector<py::handle> used = {workspace.source()};
  for (const std::vector<Array>* arrays : {&std::as_const(inputs), &outputs})
    for (const Array& array : *arrays) used.push_back(array.source);
  tell_used(call, used);
  for (size_t i = 0; i < inputs.size(); ++i)
    make_copy(op(), inputs_[i].tensor->field, kInputNames[i], inputs[i]);
  if (lets_others_run(compiled_->program())) {
    for (const std::vector<Array>* arrays : {&std::as_const(inputs), &outputs})
      for (const Array& array : *arrays) pins.add(array.keep);
    workspace.pin(pins);
  }
  for (size_t i = 0; i < inputs.size(); ++i)
    read_again(call, inputs_[i].tensor->field, kInputNames[i], inputs[i]);
  for (size_t o = 0; o < outputs.size(); ++o)
    read_again(call, outputs_[o].tensor->field, kOutputNames[o], outputs[o]);
  workspace.read_again(call);
  for (size_t i = 0; i < inputs.size(); ++i)
    check_unchanged(op(), inputs_[i].tensor->field, kInputNames[i], inputs[i]);
  for (size_t o = 0; o < outputs.size(); ++o)
    check_unchanged(op(), outputs_[o].tensor->field, kOutputNames[o], outputs[o]);
  workspace.check_unchanged(op());
}

py::object CompiledOperator::call_carefully(const CallArguments& arguments) {
  Call call(op(), arguments.stream, place_);
  call.check_stream();
  for (PyObject* const array : arguments.inputs) call.remembered.add(array);
  for (const py::handle object : {arguments.out, arguments.workspace}) call.remembered.add(object);
  std::vector<Array> inputs = read_inputs(call, arguments.inputs);
  std::vector<Array> outputs = read_outputs(call, arguments.out);
  const Workspace workspace(call, arguments.workspace, workspace_bytes());
  check_overlap(inputs, outputs, workspace);
  const bool is_given = !arguments.out.is_none();
  allocate(call, inputs, outputs);
  Pins pins;
  make_ready(call, inputs, outputs, is_given, workspace, pins);
  void *from[kMostInputs], *to[kMostOutputs];
  for (size_t i = 0; i < inputs.size(); ++i) from[i] = inputs[i].view.data;
  for (size_t o = 0; o < outputs.size(); ++o) to[o] = outputs[o].view.data;
  run(call, compiled_->operands_of(from, to), workspace.data());
  if (!arguments.out.is_none()) return py::reinterpret_borrow<py::object>(arguments.out);
  if (outputs.size() == 1) return finished(call, outputs[0]);
  py::tuple all(outputs.size());
  for (size_t o = 0; o < outputs.size(); ++o) all[o] = finished(call, outputs[o]);
  return all;
}

namespace {

/// Before addresses are taken: making a reference may run Python code, too.
void pin(const CallArguments& arguments, Pins& pins) {
  for (PyObject* const array : arguments.inputs) pins.add(array);
  if (!PyTuple_Check(arguments.out.ptr())) return pins.add(arguments.out);
  for (Py_ssize_t o = 0; o < PyTuple_GET_SIZE(arguments.out.ptr()); ++o)
    pins.add(PyTuple_GET_ITEM(arguments.out.ptr(), o));
}

}  // namespace

py::object CompiledOperator::call(const CallArguments& arguments) {
  Operands operands;
  Pins pins;
  const bool may_be_plain =
      !place_.is_cuda() || (!arguments.inputs.empty() && has_table(Py_TYPE(arguments.inputs[0])));
  if (lets_others_run(compiled_->program()) && may_be_plain) pin(arguments, pins);
  Call call(op(), arguments.stream, place_);
  if (!is_plain(arguments, operands, call.stream)) return call_carefully(arguments);
  run(call, operands, nullptr);
  return py::reinterpret_borrow<py::object>(arguments.out);
}

}  // namespace cudml::bindings
