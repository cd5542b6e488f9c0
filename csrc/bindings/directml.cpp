// DirectML's path in Python: a descriptor is lowered, compiled for a device, and called with
// arrays.
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "bindings/arguments.h"
#include "bindings/arrays.h"
#include "bindings/descriptors.h"
#include "bindings/operators.h"
#include "bindings/text.h"
#include "bindings/unlocked.h"
#include "cpu/backend.h"
#include "cuda/device.h"
#include "directml/lower.h"

namespace cudml::bindings {
namespace {

using directml::Lowered;
using directml::Tensor;

constexpr uintptr_t kWorkspaceAlignment = 64;  // of a compiled operator's own
constexpr uintptr_t kIndexAlignment = 8;       // what a caller's must have: it holds indices

/// The strides of an array must be the descriptor's wherever there is more than one element.
void check_strides(const char* op, const Tensor& tensor, const py::array& array) {
  const auto item = int64_t(size_of(tensor.desc.dtype));
  for (int d = 0; d < tensor.desc.rank(); ++d) {
    const int64_t wanted = tensor.desc.strides[d], bytes = array.strides(d);
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

/// A new array with exactly the descriptor's strides, which may leave gaps or repeat elements.
py::array strided_array(const py::dtype& dtype, const TensorDesc& desc) {
  std::vector<py::ssize_t> shape, strides;
  const auto item = py::ssize_t(size_of(desc.dtype));
  py::ssize_t elements = 1;
  for (int d = 0; d < desc.rank(); ++d) {
    shape.push_back(desc.sizes[d]);
    strides.push_back(desc.strides[d] * item);
    elements += (desc.sizes[d] - 1) * desc.strides[d];
  }
  if (desc.strides == packed_strides(desc.sizes)) return py::array(dtype, shape);
  const py::array memory(dtype, std::vector<py::ssize_t>{elements});
  return py::array(dtype, shape, strides, memory.data(), memory);
}

Array view_of(py::array array, const TensorDesc& desc) {
  Array result;
  static_cast<TensorDesc&>(result.view) = desc;
  result.view.data = const_cast<void*>(array.data());
  result.footprint = footprint_of(result.view);
  result.dtype = array.dtype();
  result.keep = std::move(array);
  return result;
}

Array checked_input(const char* op, const Tensor& tensor, const char* name, py::handle object) {
  Array array = input_array(op, tensor.field, name, object);
  check_against(op, tensor, array.view);
  check_strides(op, tensor, py::reinterpret_borrow<py::array>(object));
  if (array.keep.ptr() == object.ptr()) return array;
  // Copied because its address is odd; the plan needs the copy at the descriptor's strides.
  py::array copy = strided_array(py::reinterpret_borrow<py::dtype>(array.dtype), tensor.desc);
  py::module_::import("numpy").attr("copyto")(copy, array.keep);
  const Footprint footprint = array.footprint;
  array = view_of(std::move(copy), tensor.desc);
  array.footprint = footprint;
  return array;
}

Array checked_output(const char* op, const Tensor& tensor, const char* name, py::handle object) {
  Array array = output_array(op, tensor.field, name, object, tensor.desc.dtype, tensor.desc.sizes);
  check_strides(op, tensor, py::reinterpret_borrow<py::array>(object));
  return array;
}

/// A caller's workspace, held for the length of a call.
class Workspace {
 public:
  Workspace(const char* op, py::handle object, int64_t bytes) {
    if (object.is_none()) return;
    check_type(PyObject_CheckBuffer(object.ptr()), op,
               ": workspace is no array; it must be a writable contiguous one of at least ", bytes,
               " bytes");
    if (PyObject_GetBuffer(object.ptr(), &buffer_, PyBUF_WRITABLE) != 0) {
      PyErr_Clear();
      refuse(op, ": workspace is read-only or not contiguous; it must be a writable contiguous ",
             "array of at least ", bytes, " bytes");
    }
    const auto given = buffer_.len;
    const auto address = reinterpret_cast<uintptr_t>(buffer_.buf);
    held_ = given >= bytes && address % kIndexAlignment == 0;
    if (held_) return;
    PyBuffer_Release(&buffer_);
    check(given >= bytes, op, ": workspace has ", given, " bytes; it must have at least ", bytes);
    refuse(op, ": workspace starts at an odd address; it must be a multiple of ", kIndexAlignment);
  }
  ~Workspace() {
    if (held_) PyBuffer_Release(&buffer_);
  }
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;

  bool is_given() const { return held_; }
  void* data() const { return held_ ? buffer_.buf : nullptr; }
  Footprint footprint() const {
    return {reinterpret_cast<uintptr_t>(buffer_.buf), 1, Dims{buffer_.len}, Dims{1}};
  }

 private:
  Py_buffer buffer_{};
  bool held_ = false;
};

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

int64_t workspace_bytes_of(const Lowered& lowered) {
  const auto* grad = std::get_if<PoolGradPlan>(&lowered.plan);
  return grad ? grad->workspace_bytes : 0;
}

/// A plan for the CPU, to be called with arrays any number of times, from any number of threads.
class CompiledOperator {
 public:
  explicit CompiledOperator(std::shared_ptr<const Lowered> lowered)
      : lowered_(std::move(lowered)), workspace_bytes_(workspace_bytes_of(*lowered_)) {
    for (const Tensor& tensor : lowered_->tensors)
      if (tensor.present) (tensor.is_output ? outputs_ : inputs_).push_back(&tensor);
    for (const Tensor* tensor : outputs_) dtypes_.push_back(numpy_dtype(tensor->desc.dtype));
  }

  int64_t workspace_bytes() const { return workspace_bytes_; }
  std::string repr() const;
  py::object call(const py::args& arguments, const py::kwargs& keywords);

 private:
  std::vector<Array> read_inputs(const py::args& arguments) const;
  std::vector<Array> read_outputs(const py::object& out) const;
  void check_overlap(const std::vector<Array>& inputs, const std::vector<Array>& outputs,
                     const Workspace& workspace) const;
  void run(const std::vector<Array>& inputs, const std::vector<Array>& outputs, void* workspace);
  void launch(const std::vector<Array>& inputs, const std::vector<Array>& outputs,
              void* workspace) const;

  std::shared_ptr<const Lowered> lowered_;
  int64_t workspace_bytes_;
  std::vector<const Tensor*> inputs_, outputs_;
  std::vector<py::object> dtypes_;  // NumPy's, of the outputs
  std::mutex own_workspace_;
  std::vector<char> memory_;  // behind the workspace of callers who bring none
};

std::string CompiledOperator::repr() const {
  std::string text = join("<cudml.CompiledOperator ", lowered_->op, " on cpu:");
  for (const auto* tensors : {&inputs_, &outputs_})
    for (const Tensor* tensor : *tensors)
      text += join(' ', tensor->field, ' ', name_of(tensor->desc.dtype), tensor->desc.sizes);
  return text + join(", workspace_bytes ", workspace_bytes_, ">");
}

std::vector<Array> CompiledOperator::read_inputs(const py::args& arguments) const {
  const char* op = lowered_->op;
  if (arguments.size() != inputs_.size()) {
    std::string names;
    for (const Tensor* tensor : inputs_) names += join(names.empty() ? "" : ", ", tensor->field);
    refuse_type(op, ": ", arguments.size(), " inputs are given; the descriptor has ",
                inputs_.size(), " (", names, ")");
  }
  std::vector<Array> inputs;
  for (size_t i = 0; i < inputs_.size(); ++i)
    inputs.push_back(checked_input(op, *inputs_[i], join("inputs[", i, "]").c_str(), arguments[i]));
  return inputs;
}

std::vector<Array> CompiledOperator::read_outputs(const py::object& out) const {
  std::vector<Array> outputs(outputs_.size());
  if (out.is_none()) return outputs;
  const char* op = lowered_->op;
  if (outputs_.size() == 1) {
    outputs[0] = checked_output(op, *outputs_[0], "out", out);
    return outputs;
  }
  const bool is_sequence = PyTuple_Check(out.ptr()) || PyList_Check(out.ptr());
  check_type(is_sequence && size_t(PySequence_Size(out.ptr())) == outputs_.size(), op,
             ": out is no pair; the descriptor has ", outputs_.size(),
             " outputs, so it must be a tuple of as many arrays");
  const auto arrays = py::tuple(py::reinterpret_borrow<py::sequence>(out));
  for (size_t i = 0; i < outputs_.size(); ++i)
    outputs[i] = checked_output(op, *outputs_[i], join("out[", i, "]").c_str(), arrays[i]);
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

void CompiledOperator::launch(const std::vector<Array>& inputs, const std::vector<Array>& outputs,
                              void* workspace) const {
  const cpu::Backend& backend = cpu::backend();
  const void* x = inputs[0].view.data;
  void* y = outputs[0].view.data;
  if (const auto* plan = std::get_if<PoolPlan>(&lowered_->plan)) {
    backend.pool(*plan, x, y, outputs.size() > 1 ? outputs[1].view.data : nullptr);
  } else if (const auto* plan = std::get_if<PoolGradPlan>(&lowered_->plan)) {
    if (inputs.size() > 1)
      backend.max_pool_grad(*plan, x, inputs[1].view.data, y, workspace);
    else
      backend.average_pool_grad(*plan, x, y);
  } else if (const auto* plan = std::get_if<PadPlan>(&lowered_->plan)) {
    backend.pad(*plan, x, y);
  } else if (const auto* plan = std::get_if<MvnPlan>(&lowered_->plan)) {
    const void* scale = plan->has_scale ? inputs[1].view.data : nullptr;
    const void* bias = plan->has_bias ? inputs.back().view.data : nullptr;
    backend.mvn(*plan, x, scale, bias, y);
  }
}

void CompiledOperator::run(const std::vector<Array>& inputs, const std::vector<Array>& outputs,
                           void* workspace) {
  const Unlocked unlocked;
  if (workspace || workspace_bytes_ == 0) return launch(inputs, outputs, workspace);
  const std::lock_guard lock(own_workspace_);
  if (memory_.empty()) memory_.resize(size_t(workspace_bytes_) + kWorkspaceAlignment);
  const auto address = reinterpret_cast<uintptr_t>(memory_.data());
  const uintptr_t aligned = (address + kWorkspaceAlignment - 1) & ~(kWorkspaceAlignment - 1);
  launch(inputs, outputs, reinterpret_cast<void*>(aligned));
}

py::object CompiledOperator::call(const py::args& arguments, const py::kwargs& keywords) {
  const char* op = lowered_->op;
  const Keywords options = read_keywords(op, keywords);
  refuse_stream(op, options.stream);
  const std::vector<Array> inputs = read_inputs(arguments);
  std::vector<Array> outputs = read_outputs(options.out);
  const Workspace workspace(op, options.workspace, workspace_bytes_);
  check_overlap(inputs, outputs, workspace);
  for (size_t o = 0; o < outputs.size(); ++o)
    if (!outputs[o].keep)
      outputs[o] =
          view_of(strided_array(py::reinterpret_borrow<py::dtype>(dtypes_[o]), outputs_[o]->desc),
                  outputs_[o]->desc);
  run(inputs, outputs, workspace.data());
  if (!options.out.is_none()) return options.out;
  if (outputs.size() == 1) return outputs[0].keep;
  return py::make_tuple(outputs[0].keep, outputs[1].keep);
}

bool is_cuda(const std::string& device) {
  if (device == "cuda") return true;
  return device.size() > 5 && device.size() < 9 && device.starts_with("cuda:") &&
         device.find_first_not_of("0123456789", 5) == std::string::npos;
}

std::shared_ptr<CompiledOperator> compile(const std::shared_ptr<const Lowered>& lowered,
                                          const py::object& device) {
  check_type(py::isinstance<py::str>(device), lowered->op, ": device is ", text_of(device),
             "; it must be a string: \"cpu\", \"cuda\" or \"cuda:<number>\"");
  const auto name = utf8(device);
  if (name == "cpu") return std::make_shared<CompiledOperator>(lowered);
  check(is_cuda(name), lowered->op, ": device is \"", name,
        "\"; it must be \"cpu\", \"cuda\" or \"cuda:<number>\"");
  const cuda::DeviceQuery query = cuda::query_devices();
  throw cuda::Error(join(lowered->op, ": device is \"", name, "\"; ",
                         query.is_built && query.devices.empty()
                             ? "this machine has no usable GPU: " + query.message
                             : "this build has no CUDA kernels"));
}

std::shared_ptr<const Lowered> lower(const py::object& desc, const py::object& level) {
  DescriptorArena arena;
  const DML_OPERATOR_DESC operator_desc = arena.operator_desc(desc);
  return std::make_shared<const Lowered>(
      directml::lower(operator_desc, DML_FEATURE_LEVEL(py::cast<int>(py::int_(level)))));
}

constexpr const char* kCallDoc =
    R"(Run the operator on arrays.

Parameters
----------
*inputs : numpy.ndarray
    One array per input tensor, in the descriptor's order; an absent optional tensor is left out.
    Data type, sizes and strides are those of the tensor descriptor (null strides mean packed;
    strides of dimensions of size 1 do not count).
out : numpy.ndarray or tuple of numpy.ndarray, optional
    Where the outputs go, a pair where the operator has two. Nothing is allocated then.
workspace : writable contiguous buffer, optional
    At least `workspace_bytes` bytes. Without it, calls of one compiled operator share its own
    workspace and wait for each other.
stream : None
    CPU arrays take no stream.

Returns
-------
numpy.ndarray or tuple of numpy.ndarray
    `out` itself where it is given, else new arrays with exactly the descriptors' strides.

Raises
------
TypeError
    A wrong number of inputs, an object that is no array, a data type that is not the descriptor's.
ValueError
    Sizes, strides, a read-only or overlapping output, a workspace that is too small.)";

constexpr const char* kClassDoc =
    R"(An operator planned for a device; made by `Operator.compile`, called with arrays.

Examples
--------
>>> import numpy as np
>>> from cudml.directml import BufferTensorDesc, Padding1OperatorDesc
>>> desc = Padding1OperatorDesc(
...     InputTensor=BufferTensorDesc("INT32", [2]), OutputTensor=BufferTensorDesc("INT32", [5]),
...     PaddingMode="CONSTANT", PaddingValueDataType="INT32", PaddingValue=7,
...     StartPadding=[2], EndPadding=[1],
... )
>>> pad = cudml.Operator(desc).compile("cpu")
>>> pad(np.array([1, 2], np.int32)).tolist(), pad.workspace_bytes
([7, 7, 1, 2, 7], 0)
)";

}  // namespace

void bind_directml(py::module_& module) {
  py::options options;
  options.disable_function_signatures();
  py::class_<Lowered, std::shared_ptr<Lowered>>(module, "LoweredOperator")
      .def("describe", &directml::describe)
      .def_property_readonly("name", [](const Lowered& self) { return self.op; })
      .def("compile", [](const std::shared_ptr<Lowered>& self, const py::object& device) {
        return compile(self, device);
      });
  py::class_<CompiledOperator, std::shared_ptr<CompiledOperator>> compiled(
      module, "CompiledOperator", kClassDoc);
  compiled.def("__call__", &CompiledOperator::call, kCallDoc)
      .def("__repr__", &CompiledOperator::repr)
      .def_property_readonly("workspace_bytes", &CompiledOperator::workspace_bytes,
                             "Bytes that `workspace` must have; 0 for most operators.");
  module.def("lower", &lower);
}

}  // namespace cudml::bindings
