// One function per canonical operator: arguments to a Desc, arrays to tensors, plan, run.
#include "bindings/operators.h"

#include <cstddef>
#include <memory>

#include "bindings/arguments.h"
#include "bindings/arrays.h"
#include "bindings/unlocked.h"
#include "cpu/backend.h"

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
Array output_or_plan(const char* op, const char* field, const char* name, py::handle out,
                     Dtype dtype, const Dims& sizes, const TensorDesc& like) {
  if (!out.is_none()) return output_array(op, field, name, out, dtype, sizes);
  Array planned;
  static_cast<TensorDesc&>(planned.view) = like_input(dtype, sizes, like);
  return planned;
}

/// Memory for an output that the caller did not bring.
void allocate(Array& output, const py::object& dtype) {
  if (!output.keep) output = new_array(dtype, output.view);
}

void keep_apart(const char* op, const char* field, const Array& output, const char* other_field,
                const Array& other) {
  if (output.keep) check_no_overlap(op, field, output.footprint, other_field, other.footprint);
}

py::object pool(PoolDesc& desc, const Array& x, bool with_indices, Dtype index_type,
                py::handle out) {
  const char* op = desc.op;
  const Dims sizes = output_sizes(desc, x.view);
  py::object out_y = py::reinterpret_borrow<py::object>(out), out_indices = py::none();
  if (with_indices && !out.is_none()) {
    const bool is_pair =
        (PyTuple_Check(out.ptr()) || PyList_Check(out.ptr())) && PySequence_Size(out.ptr()) == 2;
    check_type(is_pair, op, ": out is no pair; with return_indices it must be (y, indices)");
    const auto pair = py::tuple(py::reinterpret_borrow<py::sequence>(out));
    out_y = pair[0];
    out_indices = pair[1];
    check_type(!out_y.is_none() && !out_indices.is_none(), op,
               ": out has None in it; both y and indices must be arrays");
  }
  Array y = output_or_plan(op, "OutputTensor", "out", out_y, x.view.dtype, sizes, x.view);
  Array indices;
  if (with_indices)
    indices =
        output_or_plan(op, "OutputIndicesTensor", "out[1]", out_indices, index_type, sizes, x.view);
  const PoolPlan plan = make_plan(desc, x.view, y.view, with_indices ? &indices.view : nullptr);
  keep_apart(op, "OutputTensor", y, "InputTensor", x);
  if (with_indices) {
    keep_apart(op, "OutputIndicesTensor", indices, "InputTensor", x);
    if (y.keep) keep_apart(op, "OutputIndicesTensor", indices, "OutputTensor", y);
    allocate(indices, numpy_dtype(index_type));
  }
  allocate(y, x.dtype);
  {
    const Unlocked unlocked;
    cpu::backend().pool(plan, x.view.data, y.view.data, indices.view.data);
  }
  if (!out.is_none()) return py::reinterpret_borrow<py::object>(out);
  return with_indices ? py::make_tuple(y.keep, indices.keep) : y.keep;
}

py::object max_pooling(py::object x, py::object window_size, py::object strides,
                       py::object start_padding, py::object end_padding, py::object dilations,
                       py::object return_indices, py::object index, py::object output_sizes,
                       py::object axes, py::object out, py::object stream) {
  const char* op = "max_pooling";
  const Array input = input_array(op, "InputTensor", "x", x);
  refuse_stream(op, stream);
  PoolDesc desc = pool_desc(op, PoolKind::max, input.view.rank(), window_size, strides,
                            start_padding, end_padding, dilations, axes);
  set_output_sizes(desc, output_sizes);
  const Dtype index_type = index_dtype(op, index);
  return pool(desc, input, flag(op, "return_indices", return_indices), index_type, out);
}

py::object average_pooling(py::object x, py::object window_size, py::object strides,
                           py::object start_padding, py::object end_padding, py::object dilations,
                           py::object include_padding, py::object output_sizes, py::object axes,
                           py::object out, py::object stream) {
  const char* op = "average_pooling";
  const Array input = input_array(op, "InputTensor", "x", x);
  refuse_stream(op, stream);
  PoolDesc desc = pool_desc(op, PoolKind::average, input.view.rank(), window_size, strides,
                            start_padding, end_padding, dilations, axes);
  desc.include_padding = flag(op, "IncludePadding", include_padding);
  set_output_sizes(desc, output_sizes);
  return pool(desc, input, false, Dtype::uint32, out);
}

py::object lp_pooling(py::object x, py::object window_size, py::object strides,
                      py::object start_padding, py::object end_padding, py::object dilations,
                      py::object p, py::object output_sizes, py::object axes, py::object out,
                      py::object stream) {
  const char* op = "lp_pooling";
  const Array input = input_array(op, "InputTensor", "x", x);
  refuse_stream(op, stream);
  PoolDesc desc = pool_desc(op, PoolKind::lp, input.view.rank(), window_size, strides,
                            start_padding, end_padding, dilations, axes);
  desc.p = uint32_t(whole_number(op, "P", p, kStepRange));
  set_output_sizes(desc, output_sizes);
  return pool(desc, input, false, Dtype::uint32, out);
}

py::object max_pooling_grad(py::object x, py::object grad, py::object window_size,
                            py::object strides, py::object start_padding, py::object end_padding,
                            py::object dilations, py::object axes, py::object out,
                            py::object stream) {
  const char* op = "max_pooling_grad";
  const Array input = input_array(op, "InputTensor", "x", x);
  const Array gradient = input_array(op, "InputGradientTensor", "grad", grad);
  refuse_stream(op, stream);
  PoolGradDesc desc;
  desc.forward = pool_desc(op, PoolKind::max, input.view.rank(), window_size, strides,
                           start_padding, end_padding, dilations, axes);
  desc.input_sizes = input.view.sizes;
  Array result = output_or_plan(op, "OutputGradientTensor", "out", out, input.view.dtype,
                                input.view.sizes, input.view);
  const PoolGradPlan plan = make_plan(desc, &input.view, gradient.view, result.view);
  keep_apart(op, "OutputGradientTensor", result, "InputTensor", input);
  keep_apart(op, "OutputGradientTensor", result, "InputGradientTensor", gradient);
  const std::unique_ptr<std::byte[]> workspace(new std::byte[size_t(plan.workspace_bytes)]);
  allocate(result, input.dtype);
  {
    const Unlocked unlocked;
    cpu::backend().max_pool_grad(plan, input.view.data, gradient.view.data, result.view.data,
                                 workspace.get());
  }
  return result.keep;
}

py::object average_pooling_grad(py::object grad, py::object input_sizes, py::object window_size,
                                py::object strides, py::object start_padding,
                                py::object end_padding, py::object dilations,
                                py::object include_padding, py::object axes, py::object out,
                                py::object stream) {
  const char* op = "average_pooling_grad";
  const Array gradient = input_array(op, "InputGradientTensor", "grad", grad);
  refuse_stream(op, stream);
  const int rank = gradient.view.rank();
  PoolGradDesc desc;
  desc.forward = pool_desc(op, PoolKind::average, rank, window_size, strides, start_padding,
                           end_padding, dilations, axes);
  desc.forward.include_padding = flag(op, "IncludePadding", include_padding);
  check_type(PySequence_Check(input_sizes.ptr()), op,
             ": OutputGradientTensor.Sizes (input_sizes) must be a sequence, the full shape of the "
             "forward input");
  desc.input_sizes =
      whole_numbers(op, "OutputGradientTensor.Sizes", input_sizes, rank, {0, INT64_MAX});
  Array result = output_or_plan(op, "OutputGradientTensor", "out", out, gradient.view.dtype,
                                desc.input_sizes, gradient.view);
  const PoolGradPlan plan = make_plan(desc, nullptr, gradient.view, result.view);
  keep_apart(op, "OutputGradientTensor", result, "InputGradientTensor", gradient);
  allocate(result, gradient.dtype);
  {
    const Unlocked unlocked;
    cpu::backend().average_pool_grad(plan, gradient.view.data, result.view.data);
  }
  return result.keep;
}

py::object padding(py::object x, py::object start_padding, py::object end_padding, py::object mode,
                   py::object value, py::object out, py::object stream) {
  const char* op = "padding";
  const Array input = input_array(op, "InputTensor", "x", x);
  refuse_stream(op, stream);
  const int rank = input.view.rank();
  PadDesc desc;
  desc.op = op;
  desc.start_padding = whole_numbers(op, "StartPadding", start_padding, rank, kPaddingRange);
  desc.end_padding = whole_numbers(op, "EndPadding", end_padding, rank, kPaddingRange);
  set_modes(desc, mode, rank);
  if (desc.has_constant(rank)) desc.value = constant_value(op, value, input.view.dtype);
  const Dims sizes = output_sizes(desc, input.view);
  Array y = output_or_plan(op, "OutputTensor", "out", out, input.view.dtype, sizes, input.view);
  const PadPlan plan = make_plan(desc, input.view, y.view);
  keep_apart(op, "OutputTensor", y, "InputTensor", input);
  allocate(y, input.dtype);
  {
    const Unlocked unlocked;
    cpu::backend().pad(plan, input.view.data, y.view.data);
  }
  return y.keep;
}

py::object mean_variance_normalization(py::object x, py::object scale, py::object bias,
                                       py::object axes, py::object use_mean,
                                       py::object use_variance, py::object epsilon,
                                       py::object fused, py::object out, py::object stream) {
  const char* op = "mean_variance_normalization";
  const Array input = input_array(op, "InputTensor", "x", x);
  Array factor, offset;
  if (!scale.is_none()) factor = input_array(op, "ScaleTensor", "scale", scale);
  if (!bias.is_none()) offset = input_array(op, "BiasTensor", "bias", bias);
  refuse_stream(op, stream);
  MvnDesc desc;
  desc.op = op;
  desc.axes = axes_of(op, axes, input.view.rank());
  desc.use_mean = flag(op, "UseMean", use_mean);
  desc.use_variance = flag(op, "UseVariance", use_variance);
  desc.epsilon = real_number(op, "Epsilon", epsilon);
  desc.activation = activation(op, fused);
  Array y = output_or_plan(op, "OutputTensor", "out", out, input.view.dtype, input.view.sizes,
                           input.view);
  const MvnPlan plan = make_plan(desc, input.view, factor.keep ? &factor.view : nullptr,
                                 offset.keep ? &offset.view : nullptr, y.view);
  if (!is_alias(y.view, input.view)) keep_apart(op, "OutputTensor", y, "InputTensor", input);
  if (factor.keep) keep_apart(op, "OutputTensor", y, "ScaleTensor", factor);
  if (offset.keep) keep_apart(op, "OutputTensor", y, "BiasTensor", offset);
  allocate(y, input.dtype);
  {
    const Unlocked unlocked;
    cpu::backend().mvn(plan, input.view.data, factor.view.data, offset.view.data, y.view.data);
  }
  return y.keep;
}

}  // namespace

void bind_operators(py::module_& module) {
  module.def("max_pooling", &max_pooling);
  module.def("max_pooling_grad", &max_pooling_grad);
  module.def("average_pooling", &average_pooling);
  module.def("average_pooling_grad", &average_pooling_grad);
  module.def("lp_pooling", &lp_pooling);
  module.def("padding", &padding);
  module.def("mean_variance_normalization", &mean_variance_normalization);
}

}  // namespace cudml::bindings
