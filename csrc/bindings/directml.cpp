// DirectML's path in Python: a descriptor is lowered, and compiled for a device.
#include <memory>
#include <string>
#include <utility>

#include "bindings/boxed.h"
#include "bindings/compiled.h"
#include "bindings/descriptors.h"
#include "bindings/operators.h"
#include "bindings/raise.h"
#include "bindings/text.h"
#include "cpu/simd/float_state.h"
#include "library/operator.h"

namespace cudml::bindings {
namespace {

using directml::Lowered;

std::shared_ptr<const Lowered> lower(const py::object& desc, const py::object& level) {
  const FloatState state;  // Python's numbers are rounded here
  DescriptorArena arena;
  const auto [schema, memory] = arena.described(desc);
  if (schema->use == directml::Use::own) return library::make_operator(*schema, memory);
  return library::make_operator({schema->type, memory},
                                DML_FEATURE_LEVEL(py::cast<int>(py::int_(level))));
}

py::object compile(const std::shared_ptr<const Lowered>& lowered, const py::object& device,
                   py::object source) {
  check_type(py::isinstance<py::str>(device), lowered->op, ": device is ", text_of(device),
             "; it must be a string: \"cpu\", \"cuda\" or \"cuda:<number>\"");
  const auto name = utf8(device);
  check(shown(name) == name, lowered->op, ": device is ", text_of(device),
        "; it must be \"cpu\", \"cuda\" or \"cuda:<number>\"");
  return to_python(
      std::make_shared<CompiledOperator>(library::compile(lowered, name), std::move(source)));
}

PyObject* lowered_describe(PyObject* self, PyObject*) {
  return result_of([&] { return py::str(directml::describe(*value_of<const Lowered>(self))); });
}

PyObject* lowered_compile(PyObject* self, PyObject* arguments) {
  PyObject *device, *source;
  if (!PyArg_UnpackTuple(arguments, "compile", 2, 2, &device, &source)) return nullptr;
  return result_of([&] {
    return compile(value_of<const Lowered>(self), py::reinterpret_borrow<py::object>(device),
                   py::reinterpret_borrow<py::object>(source));
  });
}

PyObject* lowered_name(PyObject* self, void*) {
  return PyUnicode_FromString(value_of<const Lowered>(self)->op);
}

PyMethodDef lowered_methods[] = {{"describe", &lowered_describe, METH_NOARGS, nullptr},
                                 {"compile", &lowered_compile, METH_VARARGS, nullptr},
                                 {}};

PyGetSetDef lowered_properties[] = {{"name", &lowered_name, nullptr, nullptr, nullptr}, {}};

PyType_Slot lowered_slots[] = {
    {Py_tp_dealloc, reinterpret_cast<void*>(&deallocate_boxed<const Lowered>)},
    {Py_tp_methods, lowered_methods},
    {Py_tp_getset, lowered_properties},
    {}};

PyObject* lowered_type() {
  static PyObject* const type =
      boxed_type<const Lowered>(CUDML_TYPE_NAME("LoweredOperator"), lowered_slots);
  return type;
}

}  // namespace

void bind_directml(py::module_& module) {
  module.attr("LoweredOperator") = py::handle(lowered_type());
  module.attr("CompiledOperator") = compiled_type();
  module.def("lower", [](const py::object& desc, const py::object& level) {
    return unless_ended([&] { return boxed(lowered_type(), lower(desc, level)); });
  });
}

}  // namespace cudml::bindings
