// One function per canonical operator: arguments to a Desc, arrays to tensors, plan, run.
#include "bindings/operators.h"

#include <utility>

#include "bindings/arguments.h"
#include "bindings/arrays.h"
#include "bindings/call.h"
#include "bindings/explain.h"
#include "bindings/run.h"
#include "bindings/text.h"

namespace cudml::bindings {
namespace {

constexpr Range kPaddingRange{kPadRange.least, kPadRange.most, "; to crop, slice the array"};

/// The Desc of a pooling from the geometry arguments that all poolings share.
PoolDesc pool_desc(const char* op, PoolKind kind, int rank, py::handle window_size,
                   py::handle strides, py::handle start_padding, py::handle end_padding,
                   py::handle dilations, py::handle axes) {
  PoolDesc desc;
  desc.op = op;
  desc.kind = kind;
  desc.axes = pooled_axes(op, axes, rank);
  const int n = desc.axes.rank;
  desc.window_size = whole_numbers(op, "WindowSize", window_size, n, kStepRange);
  desc.strides = whole_numbers(op, "Strides", strides, n, kStepRange);
  desc.start_padding = whole_numbers(op, "StartPadding", start_padding, n, kPadRange);
  desc.end_padding = whole_numbers(op, "EndPadding", end_padding, n, kPadRange);
  desc.dilations = whole_numbers(op, "Dilations", dilations, n, kStepRange);
  return desc;
}

/// What an output will be before it exists: dense, in the memory order of `like`.
TensorDesc like_input(Dtype dtype, const Dims& sizes, const TensorDesc& like) {
  return {dtype, sizes, strides_like(sizes, like)};
}

/// The caller's `out` where there is one, as a tensor; its memory is checked already.
Array output_or_plan(Call& call, const char* field, const char* name, py::handle out, Dtype dtype,
                     const Dims& sizes, const TensorDesc& like) {
  if (!out.is_none()) return output_array(call, field, name, out, dtype, sizes);
  Array planned;
  static_cast<TensorDesc&>(planned.view) = like_input(dtype, sizes, like);
  return planned;
}

/// Memory for an output that the caller did not bring, from the library of `like`.
void allocate(Call& call, const char* field, Array& output, const Array& like) {
  if (!output.keep) output = new_array(call, field, like, output.view);
}

void keep_apart(const char* op, const char* field, const Array& output, const char* other_field,
                const Array& other) {
  if (output.keep) check_no_overlap(op, field, output.footprint, other_field, other.footprint);
}

/// The two arrays of `out`.
std::pair<py::object, py::object> pair_of(const char* op, py::handle out) {
  const bool is_pair =
      (PyTuple_Check(out.ptr()) || PyList_Check(out.ptr())) && PySequence_Size(out.ptr()) == 2;
  check_type(is_pair, op, ": out is no pair; with return_indices it must be (y, indices)");
  const auto pair = py::tuple(py::reinterpret_borrow<py::sequence>(out));
  check_type(!pair[0].is_none() && !pair[1].is_none(), op,
             ": out has None in it; both y and indices must be arrays");
  return {pair[0], pair[1]};
}

py::object pool(Call& call, PoolDesc& desc, const Array& x, bool with_indices, Dtype index_type,
                py::handle out) {
  const char* op = call.op;
  const Dims sizes = output_sizes(desc, x.view);
  py::object out_y = py::reinterpret_borrow<py::object>(out), out_indices = py::none();
  if (with_indices && !out.is_none()) std::tie(out_y, out_indices) = pair_of(op, out);
  Array y = output_or_plan(call, "OutputTensor", "out", out_y, x.view.dtype, sizes, x.view);
  Array indices;
  if (with_indices)
    indices = output_or_plan(call, "OutputIndicesTensor", "out[1]", out_indices, index_type, sizes,
                             x.view);
  const PoolPlan plan = make_plan(desc, x.view, y.view, with_indices ? &indices.view : nullptr);
  keep_apart(op, "OutputTensor", y, "InputTensor", x);
  if (with_indices) {
    keep_apart(op, "OutputIndicesTensor", indices, "InputTensor", x);
    if (y.keep) keep_apart(op, "OutputIndicesTensor", indices, "OutputTensor", y);
  }
  const auto operands = [&] {
    return Operands{x.view.data, nullptr, nullptr, y.view.data, indices.view.data};
  };
  if (call.is_explained) return explained(call, plan, operands());
  if (with_indices) allocate(call, "OutputIndicesTensor", indices, x);
  allocate(call, "OutputTensor", y, x);
  const NamedTensor tensors[] = {
      {"InputTensor", &x.view}, {"OutputTensor", &y.view}, {"OutputIndicesTensor", &indices.view}};
  run(call, plan, operands(), NamedTensors(tensors, with_indices ? 3 : 2));
  if (!out.is_none()) return py::reinterpret_borrow<py::object>(out);
  return with_indices ? py::make_tuple(y.keep, indices.keep) : y.keep;
}

py::object max_pooling(Call& call, py::object x, py::object window_size, py::object strides,
                       py::object start_padding, py::object end_padding, py::object dilations,
                       py::object return_indices, py::object index, py::object output_sizes,
                       py::object axes, py::object out) {
  const char* op = call.op;
  const Array input = input_array(call, "InputTensor", "x", x);
  call.check_stream();
  PoolDesc desc = pool_desc(op, PoolKind::max, input.view.rank(), window_size, strides,
                            start_padding, end_padding, dilations, axes);
  set_output_sizes(desc, output_sizes);
  const Dtype index_type = index_dtype(op, index);
  return pool(call, desc, input, flag(op, "return_indices", return_indices), index_type, out);
}

py::object average_pooling(Call& call, py::object x, py::object window_size, py::object strides,
                           py::object start_padding, py::object end_padding, py::object dilations,
                           py::object include_padding, py::object output_sizes, py::object axes,
                           py::object out) {
  const char* op = call.op;
  const Array input = input_array(call, "InputTensor", "x", x);
  call.check_stream();
  PoolDesc desc = pool_desc(op, PoolKind::average, input.view.rank(), window_size, strides,
                            start_padding, end_padding, dilations, axes);
  desc.include_padding = flag(op, "IncludePadding", include_padding);
  set_output_sizes(desc, output_sizes);
  return pool(call, desc, input, false, Dtype::uint32, out);
}

py::object lp_pooling(Call& call, py::object x, py::object window_size, py::object strides,
                      py::object start_padding, py::object end_padding, py::object dilations,
                      py::object p, py::object output_sizes, py::object axes, py::object out) {
  const char* op = call.op;
  const Array input = input_array(call, "InputTensor", "x", x);
  call.check_stream();
  PoolDesc desc = pool_desc(op, PoolKind::lp, input.view.rank(), window_size, strides,
                            start_padding, end_padding, dilations, axes);
  desc.p = uint32_t(whole_number(op, "P", p, kStepRange));
  set_output_sizes(desc, output_sizes);
  return pool(call, desc, input, false, Dtype::uint32, out);
}

/// What both gradients do once there is a plan; `x` is null for average pooling.
py::object gradient(Call& call, const PoolGradPlan& plan, const Array* x, const Array& grad,
                    Array& result) {
  if (x) keep_apart(call.op, "OutputGradientTensor", result, "InputTensor", *x);
  keep_apart(call.op, "OutputGradientTensor", result, "InputGradientTensor", grad);
  const auto operands = [&] {
    return Operands{x ? x->view.data : nullptr, grad.view.data, nullptr, result.view.data};
  };
  if (call.is_explained) return explained(call, plan, operands());
  allocate(call, "OutputGradientTensor", result, x ? *x : grad);
  const NamedTensor tensors[] = {{"InputGradientTensor", &grad.view},
                                 {"OutputGradientTensor", &result.view},
                                 {"InputTensor", x ? &x->view : nullptr}};
  run(call, plan, operands(), NamedTensors(tensors, x ? 3 : 2));
  return result.keep;
}

py::object max_pooling_grad(Call& call, py::object x, py::object grad, py::object window_size,
                            py::object strides, py::object start_padding, py::object end_padding,
                            py::object dilations, py::object axes, py::object out) {
  const char* op = call.op;
  const Array input = input_array(call, "InputTensor", "x", x);
  const Array incoming = input_array(call, "InputGradientTensor", "grad", grad);
  call.check_stream();
  PoolGradDesc desc;
  desc.forward = pool_desc(op, PoolKind::max, input.view.rank(), window_size, strides,
                           start_padding, end_padding, dilations, axes);
  desc.input_sizes = input.view.sizes;
  Array result = output_or_plan(call, "OutputGradientTensor", "out", out, input.view.dtype,
                                input.view.sizes, input.view);
  const PoolGradPlan plan = make_plan(desc, &input.view, incoming.view, result.view);
  return gradient(call, plan, &input, incoming, result);
}

py::object average_pooling_grad(Call& call, py::object grad, py::object input_sizes,
                                py::object window_size, py::object strides,
                                py::object start_padding, py::object end_padding,
                                py::object dilations, py::object include_padding, py::object axes,
                                py::object out) {
  const char* op = call.op;
  const Array incoming = input_array(call, "InputGradientTensor", "grad", grad);
  call.check_stream();
  const int rank = incoming.view.rank();
  PoolGradDesc desc;
  desc.forward = pool_desc(op, PoolKind::average, rank, window_size, strides, start_padding,
                           end_padding, dilations, axes);
  desc.forward.include_padding = flag(op, "IncludePadding", include_padding);
  check_type(PySequence_Check(input_sizes.ptr()), op,
             ": OutputGradientTensor.Sizes (input_sizes) must be a sequence, the full shape of the "
             "forward input");
  desc.input_sizes =
      whole_numbers(op, "OutputGradientTensor.Sizes", input_sizes, rank, {0, INT64_MAX});
  Array result = output_or_plan(call, "OutputGradientTensor", "out", out, incoming.view.dtype,
                                desc.input_sizes, incoming.view);
  const PoolGradPlan plan = make_plan(desc, nullptr, incoming.view, result.view);
  return gradient(call, plan, nullptr, incoming, result);
}

py::object padding(Call& call, py::object x, py::object start_padding, py::object end_padding,
                   py::object mode, py::object value, py::object out) {
  const char* op = call.op;
  const Array input = input_array(call, "InputTensor", "x", x);
  call.check_stream();
  const int rank = input.view.rank();
  PadDesc desc;
  desc.op = op;
  desc.start_padding = whole_numbers(op, "StartPadding", start_padding, rank, kPaddingRange);
  desc.end_padding = whole_numbers(op, "EndPadding", end_padding, rank, kPaddingRange);
  set_modes(desc, mode, rank);
  if (desc.has_constant(rank)) desc.value = constant_value(op, value, input.view.dtype);
  const Dims sizes = output_sizes(desc, input.view);
  Array y = output_or_plan(call, "OutputTensor", "out", out, input.view.dtype, sizes, input.view);
  const PadPlan plan = make_plan(desc, input.view, y.view);
  keep_apart(op, "OutputTensor", y, "InputTensor", input);
  const auto operands = [&] { return Operands{input.view.data, nullptr, nullptr, y.view.data}; };
  if (call.is_explained) return explained(call, plan, operands());
  allocate(call, "OutputTensor", y, input);
  const NamedTensor tensors[] = {{"InputTensor", &input.view}, {"OutputTensor", &y.view}};
  run(call, plan, operands(), tensors);
  return y.keep;
}

/// The arrays of a normalization; scale and bias without memory are absent.
struct MvnArrays {
  Array x, scale, bias, y;

  const TensorDesc* scale_desc() const { return scale.keep ? &scale.view : nullptr; }
  const TensorDesc* bias_desc() const { return bias.keep ? &bias.view : nullptr; }
};

py::object normalize(Call& call, const MvnPlan& plan, MvnArrays& arrays) {
  auto& [x, scale, bias, y] = arrays;
  if (!is_alias(y.view, x.view)) keep_apart(call.op, "OutputTensor", y, "InputTensor", x);
  if (scale.keep) keep_apart(call.op, "OutputTensor", y, "ScaleTensor", scale);
  if (bias.keep) keep_apart(call.op, "OutputTensor", y, "BiasTensor", bias);
  const auto operands = [&] {
    return Operands{x.view.data, scale.view.data, bias.view.data, y.view.data};
  };
  if (call.is_explained) return explained(call, plan, operands());
  allocate(call, "OutputTensor", y, x);
  NamedTensor tensors[4] = {{"InputTensor", &x.view}, {"OutputTensor", &y.view}};
  size_t count = 2;
  if (scale.keep) tensors[count++] = {"ScaleTensor", &scale.view};
  if (bias.keep) tensors[count++] = {"BiasTensor", &bias.view};
  run(call, plan, operands(), NamedTensors(tensors, count));
  return y.keep;
}

py::object mean_variance_normalization(Call& call, py::object x, py::object scale, py::object bias,
                                       py::object axes, py::object use_mean,
                                       py::object use_variance, py::object epsilon,
                                       py::object fused, py::object out) {
  const char* op = call.op;
  MvnArrays a;
  a.x = input_array(call, "InputTensor", "x", x);
  if (!scale.is_none()) a.scale = input_array(call, "ScaleTensor", "scale", scale);
  if (!bias.is_none()) a.bias = input_array(call, "BiasTensor", "bias", bias);
  call.check_stream();
  MvnDesc desc;
  desc.op = op;
  desc.axes = axes_of(op, axes, a.x.view.rank());
  desc.use_mean = flag(op, "UseMean", use_mean);
  desc.use_variance = flag(op, "UseVariance", use_variance);
  desc.epsilon = real_number(op, "Epsilon", epsilon);
  desc.activation = activation(op, fused);
  a.y = output_or_plan(call, "OutputTensor", "out", out, a.x.view.dtype, a.x.view.sizes, a.x.view);
  const MvnPlan plan = make_plan(desc, a.x.view, a.scale_desc(), a.bias_desc(), a.y.view);
  return normalize(call, plan, a);
}

/// Hands every operator with its Python name to `visit`.
template <class Visitor>
void for_each_operator(Visitor&& visit) {
  visit("max_pooling", &max_pooling);
  visit("max_pooling_grad", &max_pooling_grad);
  visit("average_pooling", &average_pooling);
  visit("average_pooling_grad", &average_pooling_grad);
  visit("lp_pooling", &lp_pooling);
  visit("padding", &padding);
  visit("mean_variance_normalization", &mean_variance_normalization);
}

/// A module function of the operator's arguments and a stream.
template <class... Arguments>
void bind(py::module_& module, const char* name, py::object (*function)(Call&, Arguments...)) {
  module.def(name, [name, function](Arguments... arguments, py::object stream) {
    Call call(name, stream);
    return function(call, std::move(arguments)...);
  });
}

/// The operator on the first arguments of a tuple, which ends with a stream.
template <class... Arguments, size_t... kIndices>
py::object apply(Call& call, py::object (*function)(Call&, Arguments...),
                 const py::tuple& arguments, std::index_sequence<kIndices...>) {
  check_type(arguments.size() == sizeof...(Arguments) + 1, call.op, ": ", arguments.size(),
             " arguments are given; there are ", sizeof...(Arguments) + 1);
  return function(call, arguments[kIndices]...);
}

/// All arguments of the operator's function, in its order, follow the device.
py::object explain(const std::string& name, const py::object& device, const py::args& arguments) {
  py::object result;
  for_each_operator(
      [&]<class... Arguments>(const char* op, py::object (*function)(Call&, Arguments...)) {
        if (name != op) return;
        Call call(op, py::none());
        call.explain_for(device);
        result = apply(call, function, arguments, std::index_sequence_for<Arguments...>());
      });
  check(bool(result), "explain: there is no operator \"", name, "\"");
  return result;
}

}  // namespace

void bind_operators(py::module_& module) {
  for_each_operator([&](const char* name, auto function) { bind(module, name, function); });
  module.def("explain", &explain);
  module.def("kernels", &kernels);
}

}  // namespace cudml::bindings
