// Mean-variance normalization: arguments to a Desc, arrays to tensors, then the plan's run.
#include "bindings/normalization.h"

#include <optional>

#include "bindings/arguments.h"
#include "bindings/arrays.h"
#include "bindings/invocation.h"
#include "ops/mvn_checks.h"

namespace cudml::bindings {
namespace {

/// y, Mean and Variance, in the places that the caller has for them.
void add_with_statistics(Invocation& invocation, const MvnDesc& desc, py::handle out) {
  const py::tuple places = out.is_none()
                               ? py::make_tuple(py::none(), py::none(), py::none())
                               : entries_of(desc.op, "out", out, 3, "y, mean and variance");
  invocation.return_tuple();
  invocation.add_output("OutputTensor", "out[0]", places[0]);
  const auto add = [&](const char* field, const char* name, const char* flag, bool is_there,
                       const py::object& place) {
    if (is_there) return invocation.add_output(field, name, place);
    check(place.is_none(), desc.op, ": ", field, " (", name, ") is given; it must be None, as ",
          flag, " is False");
    invocation.add_no_output();
  };
  add("Mean", "out[1]", "UseMean", desc.use_mean, places[1]);
  add("Variance", "out[2]", "UseVariance", desc.use_variance, places[2]);
}

}  // namespace

py::object mean_variance_normalization(Call& call, py::handle x, py::handle scale, py::handle bias,
                                       py::handle axes, py::handle use_mean,
                                       py::handle use_variance, py::handle epsilon,
                                       py::handle fused, py::handle return_statistics,
                                       py::handle out) {
  Array input = input_array(call, "InputTensor", "x", x);
  std::optional<Array> scales, biases;
  if (!scale.is_none()) scales = input_array(call, "ScaleTensor", "scale", scale);
  if (!bias.is_none()) biases = input_array(call, "BiasTensor", "bias", bias);
  call.check_stream();
  MvnDesc desc;
  desc.op = call.op;
  desc.axes = axes_of(call.op, axes, input.view.rank());
  desc.use_mean = flag(call.op, "UseMean", use_mean);
  desc.use_variance = flag(call.op, "UseVariance", use_variance);
  desc.epsilon = real_number(call.op, "Epsilon", epsilon);
  desc.activation = activation(call.op, fused);
  Invocation invocation(call, {{"InputTensor", "x", &input},
                               {"ScaleTensor", "scale", scales ? &*scales : nullptr},
                               {"BiasTensor", "bias", biases ? &*biases : nullptr}});
  invocation.permit_in_place();
  invocation.key().add(desc);
  const bool with_statistics = flag(call.op, "return_statistics", return_statistics);
  if (with_statistics)
    add_with_statistics(invocation, desc, out);
  else
    invocation.add_output("OutputTensor", "out", out);
  return invocation.run(out, [&] {
    const TensorDesc& x = input.view;
    MvnResults results{&invocation.settle(0, x.dtype, x.sizes, x)};
    const auto settle = [&](int index) {
      return &invocation.settle(index, statistics_dtype(x.dtype), group_sizes(desc.axes, x), x);
    };
    if (with_statistics && desc.use_mean) results.mean = settle(1);
    if (with_statistics && desc.use_variance) results.variance = settle(2);
    return make_plan(desc, x, scales ? &scales->view : nullptr, biases ? &biases->view : nullptr,
                     results);
  });
}

}  // namespace cudml::bindings
