// The Python type of compiled operators, called without the detour of a generic binding.
#include <cstddef>
#include <string>
#include <utility>

#include "bindings/boxed.h"
#include "bindings/compiled.h"
#include "bindings/objects.h"
#include "bindings/raise.h"
#include "bindings/text.h"

#include <structmember.h>  // after Python.h, which it needs

namespace cudml::bindings {
namespace {

// Their first lines are the signatures that `inspect` and `help` show.
constexpr const char* kCallDoc =
    R"(__call__($self, /, *inputs, out=None, workspace=None, stream=None)
--

Run the operator on arrays.

Parameters
----------
*inputs : array
    One array per input tensor, in the descriptor's order; an absent optional tensor is left out.
    Data type, sizes and strides are those of the tensor descriptor (null strides mean packed;
    strides of dimensions of size 1 do not count).
out : array or tuple of arrays, optional
    Where the outputs go, a tuple where the operator has several. Nothing is allocated then.
workspace : writable contiguous buffer, optional
    At least `workspace_bytes` bytes, on the operator's device. Without it, calls of one compiled
    operator share its own workspace: on a GPU its streams wait for each other, on the CPU a call
    at the same time allocates. A graph that captures such a call must not run at once with others.
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
    A launch failed.

Examples
--------
>>> import numpy as np
>>> from cudml.directml import BufferTensorDesc, Padding1OperatorDesc
>>> desc = Padding1OperatorDesc(
...     InputTensor=BufferTensorDesc("INT32", [2]), OutputTensor=BufferTensorDesc("INT32", [4]),
...     PaddingMode="EDGE", PaddingValueDataType="INT32", PaddingValue=0,
...     StartPadding=[2], EndPadding=[0],
... )
>>> pad = cudml.Operator(desc).compile("cpu")
>>> y = np.empty(4, np.int32)
>>> pad(np.array([1, 2], np.int32), out=y) is y, y.tolist()
(True, [1, 1, 1, 2]))";

constexpr const char* kExplainDoc =
    R"(explain($self, /)
--

Say which kernel runs, why, and how many bytes it must move, for well aligned arrays.

Returns
-------
Explanation
    As `cudml.explain` gives it.)";

constexpr const char* kClassDoc =
    R"(An operator planned for a device; made by `Operator.compile`, called with arrays.

A copy, and what a pickle is loaded as, is compiled again for the same device.

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

CompiledOperator& of(PyObject* self) { return *value_of<CompiledOperator>(self); }

/// The place in `arguments` of what a keyword names.
py::handle& keyword(CallArguments& arguments, const char* op, PyObject* name) {
  const py::handle out = made_once([] { return interned("out"); }),
                   workspace = made_once([] { return interned("workspace"); }),
                   stream = made_once([] { return interned("stream"); });
  const auto is = [&](py::handle known) {
    return name == known.ptr() || PyUnicode_Compare(name, known.ptr()) == 0;
  };
  if (is(out)) return arguments.out;
  if (is(workspace)) return arguments.workspace;
  check_type(is(stream), op, ": unexpected keyword argument '", shown(utf8(name)),
             "'; the keywords are out, workspace and stream");
  return arguments.stream;
}

PyObject* call(PyObject* self, PyObject* const* values, size_t flags, PyObject* names) {
  return result_of([&] {
    CompiledOperator& op = of(self);
    const auto positional = size_t(PyVectorcall_NARGS(flags));
    const py::handle none(Py_None);
    CallArguments arguments{{values, positional}, none, none, none};
    for (Py_ssize_t i = 0; names && i < PyTuple_GET_SIZE(names); ++i)
      keyword(arguments, op.op(), PyTuple_GET_ITEM(names, i)) = values[positional + size_t(i)];
    return op.call(arguments);
  });
}

/// The same for whoever asks for the attribute `__call__`.
PyObject* call_method(PyObject* self, PyObject* const* values, Py_ssize_t count, PyObject* names) {
  return call(self, values, size_t(count), names);
}

PyObject* explain(PyObject* self, PyObject*) {
  return result_of([&] { return of(self).explain(); });
}

PyObject* reduce(PyObject* self, PyObject*) {
  return result_of([&] { return of(self).reduced(); });
}

PyObject* repr(PyObject* self) {
  return result_of([&] { return py::str(of(self).repr()); });
}

PyObject* workspace_bytes(PyObject* self, void*) {
  return PyLong_FromLongLong(of(self).workspace_bytes());
}

PyMethodDef methods[] = {
    // METH_COEXIST: with its own text in place of that of the interpreter's wrapper.
    {"__call__", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(&call_method)),
     METH_FASTCALL | METH_KEYWORDS | METH_COEXIST, kCallDoc},
    {"explain", &explain, METH_NOARGS, kExplainDoc},
    {"__reduce__", &reduce, METH_NOARGS, nullptr},
    {}};

PyGetSetDef properties[] = {{"workspace_bytes", &workspace_bytes, nullptr,
                             "Bytes that `workspace` must have; 0 for most operators.", nullptr},
                            {}};

PyMemberDef members[] = {{"__vectorcalloffset__", T_PYSSIZET,
                          offsetof(Boxed<CompiledOperator>, call), READONLY, nullptr},
                         {}};

PyType_Slot slots[] = {
    {Py_tp_call, reinterpret_cast<void*>(&PyVectorcall_Call)},
    {Py_tp_dealloc, reinterpret_cast<void*>(&deallocate_boxed<CompiledOperator>)},
    {Py_tp_repr, reinterpret_cast<void*>(&repr)},
    {Py_tp_doc, const_cast<char*>(kClassDoc)},
    {Py_tp_methods, methods},
    {Py_tp_getset, properties},
    {Py_tp_members, members},
    {}};

}  // namespace

py::object compiled_type() {
  static PyObject* const type = boxed_type<CompiledOperator>(CUDML_TYPE_NAME("CompiledOperator"),
                                                             slots, Py_TPFLAGS_HAVE_VECTORCALL);
  return py::reinterpret_borrow<py::object>(type);
}

py::object to_python(std::shared_ptr<CompiledOperator> op) {
  return boxed(compiled_type().ptr(), std::move(op), &call);
}

}  // namespace cudml::bindings
