// Normalization in two phases: arguments to a Desc, arrays to tensors, then the plan's run.
#include "bindings/two_phase.h"

#include <optional>

#include "bindings/arguments.h"
#include "bindings/arrays.h"
#include "bindings/invocation.h"
#include "ops/merge.h"
#include "ops/mvn_checks.h"
#include "ops/normalize.h"
#include "ops/statistics.h"

namespace cudml::bindings {
namespace {

constexpr const char* kTriple = "count, mean and m2";

/// The three results, in the places that the caller has for them.
void add_statistics(Invocation& invocation, const char* op, py::handle out) {
  constexpr const char *kFields[] = {"Count", "Mean", "M2"},
                       *kNames[] = {"out[0]", "out[1]", "out[2]"};
  const py::tuple places = out.is_none() ? py::make_tuple(py::none(), py::none(), py::none())
                                         : entries_of(op, "out", out, 3, kTriple);
  for (size_t i = 0; i < 3; ++i) invocation.add_output(kFields[i], kNames[i], places[i]);
}

std::optional<Array> optional_array(Call& call, const char* field, const char* name,
                                    py::handle object) {
  if (object.is_none()) return std::nullopt;
  return input_array(call, field, name, object);
}

Array* pointer_to(std::optional<Array>& array) { return array ? &*array : nullptr; }
const TensorDesc* view_in(const std::optional<Array>& array) {
  return array ? &array->view : nullptr;
}

}  // namespace

py::object normalization_statistics(Call& call, py::handle x, py::handle axes, py::handle use_mean,
                                    py::handle dtype, py::handle out) {
  Array input = input_array(call, "InputTensor", "x", x);
  call.check_stream();
  StatisticsDesc desc;
  desc.op = call.op;
  desc.axes = axes_of(call.op, axes, input.view.rank());
  desc.use_mean = flag(call.op, "UseMean", use_mean);
  desc.dtype = wide_dtype(call.op, dtype);
  Invocation invocation(call, {{"InputTensor", "x", &input}});
  invocation.key().add(desc);
  add_statistics(invocation, call.op, out);
  return invocation.run(out, [&] {
    const Dims sizes = group_sizes(desc.axes, input.view);
    const TensorDesc* results[3];
    for (int i = 0; i < 3; ++i) results[i] = &invocation.settle(i, desc.dtype, sizes, input.view);
    return make_plan(desc, input.view, *results[0], *results[1], *results[2]);
  });
}

py::object merge_statistics(Call& call, py::handle a, py::handle b, py::handle out) {
  const py::tuple first = entries_of(call.op, "a", a, 3, kTriple);
  const py::tuple second = entries_of(call.op, "b", b, 3, kTriple);
  Array na = input_array(call, "a.Count", "a[0]", first[0]);
  Array ma = input_array(call, "a.Mean", "a[1]", first[1]);
  Array sa = input_array(call, "a.M2", "a[2]", first[2]);
  Array nb = input_array(call, "b.Count", "b[0]", second[0]);
  Array mb = input_array(call, "b.Mean", "b[1]", second[1]);
  Array sb = input_array(call, "b.M2", "b[2]", second[2]);
  call.check_stream();
  Invocation invocation(call, {{"a.Count", "a[0]", &na},
                               {"a.Mean", "a[1]", &ma},
                               {"a.M2", "a[2]", &sa},
                               {"b.Count", "b[0]", &nb},
                               {"b.Mean", "b[1]", &mb},
                               {"b.M2", "b[2]", &sb}});
  add_statistics(invocation, call.op, out);
  return invocation.run(out, [&] {
    const TensorDesc* results[3];
    for (int i = 0; i < 3; ++i)
      results[i] = &invocation.settle(i, na.view.dtype, na.view.sizes, na.view);
    return make_plan(call.op, {&na.view, &ma.view, &sa.view}, {&nb.view, &mb.view, &sb.view},
                     {results[0], results[1], results[2]});
  });
}

py::object normalize(Call& call, py::handle x, py::handle mean, py::handle variance,
                     py::handle scale, py::handle bias, py::handle epsilon, py::handle fused,
                     py::handle out) {
  Array input = input_array(call, "InputTensor", "x", x);
  std::optional<Array> means = optional_array(call, "Mean", "mean", mean);
  std::optional<Array> variances = optional_array(call, "Variance", "variance", variance);
  std::optional<Array> scales = optional_array(call, "ScaleTensor", "scale", scale);
  std::optional<Array> biases = optional_array(call, "BiasTensor", "bias", bias);
  call.check_stream();
  NormalizeDesc desc;
  desc.op = call.op;
  desc.epsilon = real_number(call.op, "Epsilon", epsilon);
  desc.activation = activation(call.op, fused);
  Invocation invocation(call, {{"InputTensor", "x", &input},
                               {"Mean", "mean", pointer_to(means)},
                               {"Variance", "variance", pointer_to(variances)},
                               {"ScaleTensor", "scale", pointer_to(scales)},
                               {"BiasTensor", "bias", pointer_to(biases)}});
  invocation.permit_in_place();
  invocation.key().add(desc);
  invocation.add_output("OutputTensor", "out", out);
  return invocation.run(out, [&] {
    const TensorDesc& y = invocation.settle(0, input.view.dtype, input.view.sizes, input.view);
    return make_plan(
        desc, {&input.view, view_in(means), view_in(variances), view_in(scales), view_in(biases)},
        y);
  });
}

}  // namespace cudml::bindings
