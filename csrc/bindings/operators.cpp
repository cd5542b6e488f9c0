// One function per canonical operator: arguments to a Desc, arrays to tensors, then the plan's run.
#include "bindings/operators.h"

#include <optional>
#include <utility>

#include "bindings/arguments.h"
#include "bindings/arrays.h"
#include "bindings/call.h"
#include "bindings/explain.h"
#include "bindings/invocation.h"
#include "bindings/normalization.h"
#include "bindings/normalization_grad.h"
#include "bindings/raise.h"
#include "bindings/text.h"
#include "bindings/two_phase.h"

namespace cudml::bindings {
namespace {

constexpr Range kPaddingRange{kPadRange.least, kPadRange.most, "; to crop, slice the array"};

/// The geometry arguments that all poolings share.
struct Geometry {
  py::handle window_size, strides, start_padding, end_padding, dilations;
  py::handle axes{};  // null where the operator takes none
};

PoolDesc pool_desc(const char* op, PoolKind kind, int rank, const Geometry& geometry) {
  PoolDesc desc;
  desc.op = op;
  desc.kind = kind;
  desc.axes = pooled_axes(op, geometry.axes, rank);
  const int n = desc.axes.rank;
  desc.window_size = whole_numbers(op, "WindowSize", geometry.window_size, n, kStepRange);
  desc.strides = whole_numbers(op, "Strides", geometry.strides, n, kStepRange);
  desc.start_padding = whole_numbers(op, "StartPadding", geometry.start_padding, n, kPadRange);
  desc.end_padding = whole_numbers(op, "EndPadding", geometry.end_padding, n, kPadRange);
  desc.dilations = whole_numbers(op, "Dilations", geometry.dilations, n, kStepRange);
  return desc;
}

/// The two arrays of `out`.
std::pair<py::object, py::object> pair_of(const char* op, py::handle out) {
  const auto pair = two_of(out);
  if (!pair)
    refuse_type(op, ": ", given_for_several("out", out),
                "; with return_indices it must be (y, indices)");
  check_type(!pair->first.is_none() && !pair->second.is_none(), op,
             ": out has None in it; both y and indices must be arrays");
  return *pair;
}

/// A pooling, with indices where they have a type.
py::object pool(Call& call, const PoolDesc& desc, Array& x, std::optional<Dtype> index_type,
                py::handle out) {
  call.pooled_axes = &desc.axes;
  py::object out_y = py::reinterpret_borrow<py::object>(out), out_indices = py::none();
  if (index_type && !out.is_none()) std::tie(out_y, out_indices) = pair_of(call.op, out);
  Invocation invocation(call, {{"InputTensor", "x", &x}});
  invocation.key().add(desc);
  invocation.add_output("OutputTensor", "out", out_y);
  if (index_type) {
    invocation.key().add(uint64_t(*index_type));
    invocation.add_output("OutputIndicesTensor", "out[1]", out_indices);
  }
  return invocation.run(out, [&] {
    const Dims sizes = output_sizes(desc, x.view);
    const TensorDesc& y = invocation.settle(0, x.view.dtype, sizes, x.view);
    return make_plan(desc, x.view, y,
                     index_type ? &invocation.settle(1, *index_type, sizes, x.view) : nullptr);
  });
}

py::object max_pooling(Call& call, py::handle x, py::handle window_size, py::handle strides,
                       py::handle start_padding, py::handle end_padding, py::handle dilations,
                       py::handle return_indices, py::handle index, py::handle output_sizes,
                       py::handle axes, py::handle out) {
  Array input = input_array(call, "InputTensor", "x", x);
  call.check_stream();
  PoolDesc desc = pool_desc(call.op, PoolKind::max, input.view.rank(),
                            {window_size, strides, start_padding, end_padding, dilations, axes});
  set_output_sizes(desc, output_sizes);
  const Dtype index_type = index_dtype(call.op, index);
  const bool with_indices = flag(call.op, "return_indices", return_indices);
  return pool(call, desc, input, with_indices ? std::optional(index_type) : std::nullopt, out);
}

py::object average_pooling(Call& call, py::handle x, py::handle window_size, py::handle strides,
                           py::handle start_padding, py::handle end_padding, py::handle dilations,
                           py::handle include_padding, py::handle output_sizes, py::handle axes,
                           py::handle out) {
  Array input = input_array(call, "InputTensor", "x", x);
  call.check_stream();
  PoolDesc desc = pool_desc(call.op, PoolKind::average, input.view.rank(),
                            {window_size, strides, start_padding, end_padding, dilations, axes});
  desc.include_padding = flag(call.op, "IncludePadding", include_padding);
  set_output_sizes(desc, output_sizes);
  return pool(call, desc, input, std::nullopt, out);
}

py::object lp_pooling(Call& call, py::handle x, py::handle window_size, py::handle strides,
                      py::handle start_padding, py::handle end_padding, py::handle dilations,
                      py::handle p, py::handle output_sizes, py::handle axes, py::handle out) {
  Array input = input_array(call, "InputTensor", "x", x);
  call.check_stream();
  PoolDesc desc = pool_desc(call.op, PoolKind::lp, input.view.rank(),
                            {window_size, strides, start_padding, end_padding, dilations, axes});
  desc.p = uint32_t(whole_number(call.op, "P", p, kStepRange));
  set_output_sizes(desc, output_sizes);
  return pool(call, desc, input, std::nullopt, out);
}

/// Both gradients; `x` is null for average pooling.
py::object gradient(Call& call, const PoolGradDesc& desc, Array* x, Array& grad, py::handle out) {
  call.pooled_axes = &desc.forward.axes;
  const TensorDesc& like = x ? x->view : grad.view;
  Invocation invocation(call, {{"InputTensor", "x", x}, {"InputGradientTensor", "grad", &grad}});
  invocation.key().add(desc);
  invocation.add_output("OutputGradientTensor", "out", out);
  return invocation.run(out, [&] {
    const TensorDesc& result = invocation.settle(0, like.dtype, desc.input_sizes, like);
    return make_plan(desc, x ? &x->view : nullptr, grad.view, result);
  });
}

py::object max_pooling_grad(Call& call, py::handle x, py::handle grad, py::handle window_size,
                            py::handle strides, py::handle start_padding, py::handle end_padding,
                            py::handle dilations, py::handle axes, py::handle out) {
  Array input = input_array(call, "InputTensor", "x", x);
  Array incoming = input_array(call, "InputGradientTensor", "grad", grad);
  call.check_stream();
  PoolGradDesc desc;
  desc.forward = pool_desc(call.op, PoolKind::max, input.view.rank(),
                           {window_size, strides, start_padding, end_padding, dilations, axes});
  desc.input_sizes = input.view.sizes;
  return gradient(call, desc, &input, incoming, out);
}

py::object average_pooling_grad(Call& call, py::handle grad, py::handle input_sizes,
                                py::handle window_size, py::handle strides,
                                py::handle start_padding, py::handle end_padding,
                                py::handle dilations, py::handle include_padding, py::handle axes,
                                py::handle out) {
  Array incoming = input_array(call, "InputGradientTensor", "grad", grad);
  call.check_stream();
  const int rank = incoming.view.rank();
  PoolGradDesc desc;
  desc.forward = pool_desc(call.op, PoolKind::average, rank,
                           {window_size, strides, start_padding, end_padding, dilations, axes});
  desc.forward.include_padding = flag(call.op, "IncludePadding", include_padding);
  desc.input_sizes = whole_shape(call.op, "OutputGradientTensor.Sizes", "input_sizes", input_sizes,
                                 rank, "the full shape of the forward input");
  return gradient(call, desc, nullptr, incoming, out);
}

py::object lp_pooling_grad(Call& call, py::handle x, py::handle y, py::handle grad,
                           py::handle window_size, py::handle strides, py::handle start_padding,
                           py::handle end_padding, py::handle dilations, py::handle p,
                           py::handle out) {
  Array input = input_array(call, "InputTensor", "x", x);
  Array norms = input_array(call, "OutputTensor", "y", y);
  Array incoming = input_array(call, "InputGradientTensor", "grad", grad);
  call.check_stream();
  PoolGradDesc desc;
  desc.forward = pool_desc(call.op, PoolKind::lp, input.view.rank(),
                           {window_size, strides, start_padding, end_padding, dilations});
  desc.forward.p = uint32_t(whole_number(call.op, "P", p, kStepRange));
  desc.input_sizes = input.view.sizes;
  call.pooled_axes = &desc.forward.axes;
  Invocation invocation(call, {{"InputTensor", "x", &input},
                               {"OutputTensor", "y", &norms},
                               {"InputGradientTensor", "grad", &incoming}});
  invocation.key().add(desc);
  invocation.add_output("OutputGradientTensor", "out", out);
  return invocation.run(out, [&] {
    output_sizes(desc, &input.view, incoming.view, &norms.view);
    const TensorDesc& result = invocation.settle(0, input.view.dtype, desc.input_sizes, input.view);
    return make_plan(desc, &input.view, incoming.view, result, &norms.view);
  });
}

py::object max_unpooling(Call& call, py::handle x, py::handle indices, py::handle sizes,
                         py::handle out) {
  Array input = input_array(call, "InputTensor", "x", x);
  Array places = input_array(call, "IndicesTensor", "indices", indices);
  call.check_stream();
  const int rank = input.view.rank();
  UnpoolDesc desc;
  desc.op = call.op;
  desc.output_sizes = whole_shape(call.op, "OutputTensor.Sizes", "output_sizes", sizes, rank,
                                  "the full shape of the result");
  Invocation invocation(call,
                        {{"InputTensor", "x", &input}, {"IndicesTensor", "indices", &places}});
  invocation.key().add(desc.output_sizes);
  invocation.add_output("OutputTensor", "out", out);
  return invocation.run(out, [&] {
    const Dims y = output_sizes(desc, input.view, places.view);
    return make_plan(desc, input.view, places.view,
                     invocation.settle(0, input.view.dtype, y, input.view));
  });
}

py::object padding(Call& call, py::handle x, py::handle start_padding, py::handle end_padding,
                   py::handle mode, py::handle value, py::handle out) {
  Array input = input_array(call, "InputTensor", "x", x);
  call.check_stream();
  const int rank = input.view.rank();
  PadDesc desc;
  desc.op = call.op;
  desc.start_padding = whole_numbers(call.op, "StartPadding", start_padding, rank, kPaddingRange);
  desc.end_padding = whole_numbers(call.op, "EndPadding", end_padding, rank, kPaddingRange);
  set_modes(desc, mode, rank);
  if (desc.has_constant(rank)) desc.value = constant_value(call.op, value, input.view.dtype);
  Invocation invocation(call, {{"InputTensor", "x", &input}});
  invocation.key().add(desc, rank);
  invocation.add_output("OutputTensor", "out", out);
  return invocation.run(out, [&] {
    const Dims sizes = output_sizes(desc, input.view);
    return make_plan(desc, input.view, invocation.settle(0, input.view.dtype, sizes, input.view));
  });
}

py::object padding_grad(Call& call, py::handle grad, py::handle input_sizes,
                        py::handle start_padding, py::handle end_padding, py::handle mode,
                        py::handle out) {
  Array incoming = input_array(call, "InputGradientTensor", "grad", grad);
  call.check_stream();
  const int rank = incoming.view.rank();
  PadGradDesc desc;
  desc.op = call.op;
  desc.mode = border(call.op, mode);
  desc.input_sizes = whole_shape(call.op, "OutputGradientTensor.Sizes", "input_sizes", input_sizes,
                                 rank, "the shape of what was padded");
  desc.start_padding = whole_numbers(call.op, "StartPadding", start_padding, rank, kPadRange);
  desc.end_padding = whole_numbers(call.op, "EndPadding", end_padding, rank, kPadRange);
  Invocation invocation(call, {{"InputGradientTensor", "grad", &incoming}});
  invocation.key().add(desc);
  invocation.add_output("OutputGradientTensor", "out", out);
  const TensorDesc& like = incoming.view;
  const auto settled = [&]() -> const TensorDesc& {
    return invocation.settle(0, like.dtype, output_sizes(desc, like), like);
  };
  if (desc.mode == Border::constant)
    return invocation.run(out, [&] { return make_slice_plan(desc, like, settled()); });
  return invocation.run(out, [&] { return make_plan(desc, like, settled()); });
}

/// A text that a template can be told by.
template <size_t kSize>
struct Name {
  char text[kSize];
  consteval Name(const char (&name)[kSize]) { std::copy_n(name, kSize, text); }
};

/// An operator under its Python name, for arguments as the interpreter passes them: those of the
/// function, then a stream.
template <Name kName, auto kFunction>
struct Operator {
  static constexpr const char* name = kName.text;

  template <class... Arguments, size_t... kIndices>
  static py::object apply(Call& call, py::object (*function)(Call&, Arguments...),
                          PyObject* const* arguments, std::index_sequence<kIndices...>) {
    return function(call, py::handle(arguments[kIndices])...);
  }

  template <class... Arguments>
  static constexpr size_t count_of(py::object (*)(Call&, Arguments...)) {
    return sizeof...(Arguments);
  }
  static constexpr size_t count = count_of(kFunction);

  static void check_count(size_t given) {
    check_type(given == count + 1, name, ": ", given, " arguments are given; there are ",
               count + 1);
  }

  static py::object run(Call& call, PyObject* const* arguments) {
    return apply(call, kFunction, arguments, std::make_index_sequence<count>());
  }

  static PyObject* call(PyObject*, PyObject* const* arguments, Py_ssize_t given) {
    return result_of([&] {
      check_count(size_t(given));
      Call call(name, arguments[count]);
      // The first is read first, unless it is several arrays.
      const bool is_one = !PyTuple_Check(arguments[0]) && !PyList_Check(arguments[0]);
      for (size_t i = is_one; i < count; ++i) call.remembered.add(arguments[i]);
      return run(call, arguments);
    });
  }

  static inline PyMethodDef definition{
      name, reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(&call)), METH_FASTCALL,
      nullptr};
};

/// Hands every operator to `visit`.
template <class Visitor>
void for_each_operator(Visitor&& visit) {
  visit(Operator<"max_pooling", &max_pooling>());
  visit(Operator<"max_pooling_grad", &max_pooling_grad>());
  visit(Operator<"average_pooling", &average_pooling>());
  visit(Operator<"average_pooling_grad", &average_pooling_grad>());
  visit(Operator<"lp_pooling", &lp_pooling>());
  visit(Operator<"lp_pooling_grad", &lp_pooling_grad>());
  visit(Operator<"max_unpooling", &max_unpooling>());
  visit(Operator<"padding", &padding>());
  visit(Operator<"padding_grad", &padding_grad>());
  visit(Operator<"mean_variance_normalization", &mean_variance_normalization>());
  visit(Operator<"mean_variance_normalization_grad", &mean_variance_normalization_grad>());
  visit(Operator<"normalize_grad_sums", &normalize_grad_sums>());
  visit(Operator<"normalize_grad", &normalize_grad>());
  visit(Operator<"normalization_statistics", &normalization_statistics>());
  visit(Operator<"merge_statistics", &merge_statistics>());
  visit(Operator<"normalize", &normalize>());
}

/// All arguments of the operator's function, in its order, follow the device.
py::object explained_call(const std::string& name, const py::object& device,
                          const py::args& arguments) {
  py::object result;
  for_each_operator([&](auto op) {
    if (name != op.name) return;
    op.check_count(arguments.size());
    const py::object none = py::none();
    Call call(op.name, none);
    call.explain_for(device);
    result = op.run(call, &PyTuple_GET_ITEM(arguments.ptr(), 0));
  });
  check(bool(result), "explain: there is no operator \"", shown(name), "\"");
  return result;
}

}  // namespace

void bind_operators(py::module_& module) {
  const auto module_name = py::reinterpret_borrow<py::object>(module.attr("__name__"));
  for_each_operator([&](auto op) {
    PyObject* function = PyCFunction_NewEx(&op.definition, nullptr, module_name.ptr());
    if (!function) throw py::error_already_set();
    module.attr(op.name) = py::reinterpret_steal<py::object>(function);
  });
  module.def("explain",
             [](const std::string& name, const py::object& device, const py::args& arguments) {
               return unless_ended([&] { return explained_call(name, device, arguments); });
             });
  module.def("kernels", [](const py::object& family, const py::object& device) {
    return unless_ended([&] { return kernels(family, device); });
  });
}

}  // namespace cudml::bindings
