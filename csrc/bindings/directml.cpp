// DirectML's path in Python: a descriptor is lowered, and compiled for a device.
#include <memory>
#include <string>

#include "bindings/compiled.h"
#include "bindings/descriptors.h"
#include "bindings/operators.h"
#include "bindings/text.h"
#include "cuda/device.h"
#include "directml/lower.h"

namespace cudml::bindings {
namespace {

using directml::Lowered;

std::shared_ptr<const Lowered> lower(const py::object& desc, const py::object& level) {
  DescriptorArena arena;
  const DML_OPERATOR_DESC operator_desc = arena.operator_desc(desc);
  return std::make_shared<const Lowered>(
      directml::lower(operator_desc, DML_FEATURE_LEVEL(py::cast<int>(py::int_(level)))));
}

std::shared_ptr<CompiledOperator> compile(const std::shared_ptr<const Lowered>& lowered,
                                          const py::object& device) {
  check_type(py::isinstance<py::str>(device), lowered->op, ": device is ", text_of(device),
             "; it must be a string: \"cpu\", \"cuda\" or \"cuda:<number>\"");
  const auto name = utf8(device);
  try {
    const auto place = place_named(name);
    check(place.has_value(), lowered->op, ": device is \"", name,
          "\"; it must be \"cpu\", \"cuda\" or \"cuda:<number>\"");
    return std::make_shared<CompiledOperator>(lowered, *place);
  } catch (const cuda::Error& error) {
    throw error.prefixed(join(lowered->op, ": device is \"", name, "\"; "));
  }
}

constexpr const char* kCallDoc =
    R"(Run the operator on arrays.

Parameters
----------
*inputs : array
    One array per input tensor, in the descriptor's order; an absent optional tensor is left out.
    Data type, sizes and strides are those of the tensor descriptor (null strides mean packed;
    strides of dimensions of size 1 do not count).
out : array or tuple of arrays, optional
    Where the outputs go, a pair where the operator has two. Nothing is allocated then.
workspace : writable contiguous buffer, optional
    At least `workspace_bytes` bytes, on the operator's device. Without it, calls of one compiled
    operator share its own workspace and wait for each other, on a GPU its streams.
stream : int or object with __cuda_stream__, optional
    Where the work is enqueued: 0 or 1 is the legacy default stream, 2 the per-thread one, another
    int a handle. None is the current stream of the first input's library. CPU arrays take None.

Returns
-------
array or tuple of arrays
    `out` itself where it is given, else new arrays of the first input's library with exactly the
    descriptors' strides. On a GPU they are complete once the stream has come that far.

Raises
------
TypeError
    A wrong number of inputs, an object that is no array, a data type that is not the descriptor's.
ValueError
    Sizes, strides, another device, a read-only or overlapping output, a workspace that is too
    small.
CudaError
    A launch failed.)";

constexpr const char* kExplainDoc =
    R"(Say which kernel runs, why, and how many bytes it must move, for well aligned arrays.

Returns
-------
Explanation
    As `cudml.explain` gives it.)";

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
      .def("explain", &CompiledOperator::explain, kExplainDoc)
      .def_property_readonly("workspace_bytes", &CompiledOperator::workspace_bytes,
                             "Bytes that `workspace` must have; 0 for most operators.");
  module.def("lower", &lower);
}

}  // namespace cudml::bindings
