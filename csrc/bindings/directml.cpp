// DirectML's path in Python: a descriptor is lowered, and compiled for a device.
#include <memory>
#include <string>

#include "bindings/compiled.h"
#include "bindings/descriptors.h"
#include "bindings/operators.h"
#include "bindings/text.h"
#include "core/float_state.h"
#include "cuda/device.h"
#include "directml/lower.h"

namespace cudml::bindings {
namespace {

using directml::Lowered;

std::shared_ptr<const Lowered> lower(const py::object& desc, const py::object& level) {
  const FloatState state;  // numbers of the descriptor are rounded here
  DescriptorArena arena;
  const DML_OPERATOR_DESC operator_desc = arena.operator_desc(desc);
  return std::make_shared<const Lowered>(
      directml::lower(operator_desc, DML_FEATURE_LEVEL(py::cast<int>(py::int_(level)))));
}

py::object compile(const std::shared_ptr<const Lowered>& lowered, const py::object& device) {
  check_type(py::isinstance<py::str>(device), lowered->op, ": device is ", text_of(device),
             "; it must be a string: \"cpu\", \"cuda\" or \"cuda:<number>\"");
  const auto name = utf8(device);
  check(shown(name) == name, lowered->op, ": device is ", text_of(device),
        "; it must be \"cpu\", \"cuda\" or \"cuda:<number>\"");
  try {
    const auto place = place_named(name);
    check(place.has_value(), lowered->op, ": device is \"", name,
          "\"; it must be \"cpu\", \"cuda\" or \"cuda:<number>\"");
    return to_python(std::make_shared<CompiledOperator>(lowered, *place));
  } catch (const cuda::Error& error) {
    throw error.prefixed(join(lowered->op, ": device is \"", name, "\"; "));
  }
}

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
  module.attr("CompiledOperator") = compiled_type();
  module.def("lower", &lower);
}

}  // namespace cudml::bindings
