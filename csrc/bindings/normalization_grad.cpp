// The gradients of normalization: arguments to a Desc, arrays to tensors, then the plan's run.
#include "bindings/normalization_grad.h"

#include <array>
#include <optional>

#include "bindings/arguments.h"
#include "bindings/arrays.h"
#include "bindings/invocation.h"
#include "bindings/text.h"
#include "ops/mvn_checks.h"
#include "ops/mvn_grad.h"

namespace cudml::bindings {
namespace {

enum Input { kX, kGrad, kScale, kBias, kMean, kVariance, kCount, kGradientSum, kProductSum };

constexpr const char* kFields[] = {
    "InputTensor", "InputGradientTensor", "ScaleTensor", "BiasTensor", "Mean", "Variance",
    "Count",       "GradientSum",         "ProductSum"};
constexpr const char* kNames[] = {"x",        "grad",  "scale",   "bias",   "mean",
                                  "variance", "count", "sums[0]", "sums[1]"};

/// The arrays of a call, each read once.
class Inputs {
 public:
  explicit Inputs(Call& call) : call_(call) {}

  void read(Input input, py::handle object) {
    if (!object.is_none())
      arrays_[input] = input_array(call_, kFields[input], kNames[input], object);
  }
  /// x and grad are there whatever the caller passes.
  void require(Input input, py::handle object) {
    arrays_[input] = input_array(call_, kFields[input], kNames[input], object);
  }

  NamedInput named(Input input) {
    return {kFields[input], kNames[input], arrays_[input] ? &*arrays_[input] : nullptr};
  }
  const TensorDesc* operator[](Input input) const {
    return arrays_[input] ? &arrays_[input]->view : nullptr;
  }
  int rank() const { return arrays_[kX]->view.rank(); }

  /// With places for the results still to be filled.
  MvnGradTensors tensors() const {
    const Inputs& i = *this;
    return {i[kX],    i[kGrad],     i[kScale], i[kBias],
            i[kMean], i[kVariance], i[kCount], {i[kGradientSum], i[kProductSum]},
            {}};
  }

 private:
  Call& call_;
  std::array<std::optional<Array>, kMostInputs> arrays_;
};

Invocation invocation_of(Call& call, Inputs& in) {
  return Invocation(
      call, {in.named(kX), in.named(kGrad), in.named(kScale), in.named(kBias), in.named(kMean),
             in.named(kVariance), in.named(kCount), in.named(kGradientSum), in.named(kProductSum)});
}

/// The gradients of x, scale and bias, as far as `outputs` names them and there are such tensors.
py::object gradients(Call& call, const MvnGradDesc& desc, Inputs& in, py::handle outputs,
                     py::handle out) {
  constexpr const char* kOutputs[] = {"OutputGradientTensor", "ScaleGradientTensor",
                                      "BiasGradientTensor"};
  constexpr const char* kPlaces[] = {"out[0]", "out[1]", "out[2]"};
  constexpr Input kLikes[] = {kX, kScale, kBias};
  const std::array<bool, 3> named = gradients_named(call.op, outputs);
  const py::tuple places = out.is_none() ? py::make_tuple(py::none(), py::none(), py::none())
                                         : entries_of(call.op, "out", out, 3,
                                                      "the gradients of x, scale and bias or None");
  Invocation invocation = invocation_of(call, in);
  invocation.key().add(desc);
  invocation.return_tuple();
  for (size_t i = 0; i < 3; ++i) {
    const py::object place = places[i];
    if (named[i] && in[kLikes[i]]) {
      invocation.add_output(kOutputs[i], kPlaces[i], place);
      continue;
    }
    check(place.is_none(), call.op, ": ", kOutputs[i], " (", kPlaces[i],
          ") is given; it must be None, as ",
          named[i] ? "there is no such tensor" : "outputs does not name it");
    invocation.add_no_output();
  }
  return invocation.run(out, [&] {
    MvnGradTensors tensors = in.tensors();
    for (size_t i = 0; i < 3; ++i)
      if (const TensorDesc* like = in[kLikes[i]]; named[i] && like)
        tensors.outputs[i] = &invocation.settle(int(i), like->dtype, like->sizes, *like);
    return make_plan(desc, tensors);
  });
}

}  // namespace

py::object mean_variance_normalization_grad(Call& call, py::handle x, py::handle grad,
                                            py::handle scale, py::handle bias, py::handle axes,
                                            py::handle use_mean, py::handle use_variance,
                                            py::handle epsilon, py::handle fused, py::handle mean,
                                            py::handle variance, py::handle outputs,
                                            py::handle out) {
  Inputs in(call);
  in.require(kX, x);
  in.require(kGrad, grad);
  in.read(kScale, scale);
  in.read(kBias, bias);
  in.read(kMean, mean);
  in.read(kVariance, variance);
  call.check_stream();
  MvnGradDesc desc;
  desc.op = call.op;
  desc.axes = axes_of(call.op, axes, in.rank());
  desc.use_mean = flag(call.op, "UseMean", use_mean);
  desc.use_variance = flag(call.op, "UseVariance", use_variance);
  desc.epsilon = real_number(call.op, "Epsilon", epsilon);
  desc.activation = activation(call.op, fused);
  return gradients(call, desc, in, outputs, out);
}

py::object normalize_grad_sums(Call& call, py::handle x, py::handle grad, py::handle mean,
                               py::handle variance, py::handle scale, py::handle bias,
                               py::handle axes, py::handle epsilon, py::handle fused,
                               py::handle dtype, py::handle out) {
  Inputs in(call);
  in.require(kX, x);
  in.require(kGrad, grad);
  in.read(kMean, mean);
  in.read(kVariance, variance);
  in.read(kScale, scale);
  in.read(kBias, bias);
  call.check_stream();
  MvnGradDesc desc;
  desc.op = call.op;
  desc.kind = MvnGradKind::sums;
  desc.axes = axes_of(call.op, axes, in.rank());
  desc.epsilon = real_number(call.op, "Epsilon", epsilon);
  desc.activation = activation(call.op, fused);
  desc.sum_dtype = wide_dtype(call.op, dtype);
  const py::tuple places = out.is_none()
                               ? py::make_tuple(py::none(), py::none())
                               : entries_of(call.op, "out", out, 2, "the sums of w and of w * z");
  Invocation invocation = invocation_of(call, in);
  invocation.key().add(desc);
  invocation.add_output("GradientSum", "out[0]", places[0]);
  invocation.add_output("ProductSum", "out[1]", places[1]);
  return invocation.run(out, [&] {
    MvnGradTensors tensors = in.tensors();
    const Dims sizes = group_sizes(desc.axes, *in[kX]);
    for (int i = 0; i < 2; ++i)
      tensors.outputs[i] = &invocation.settle(i, desc.sum_dtype, sizes, *in[kX]);
    return make_plan(desc, tensors);
  });
}

py::object normalize_grad(Call& call, py::handle x, py::handle grad, py::handle mean,
                          py::handle variance, py::handle scale, py::handle bias, py::handle count,
                          py::handle sums, py::handle epsilon, py::handle fused, py::handle outputs,
                          py::handle out) {
  Inputs in(call);
  in.require(kX, x);
  in.require(kGrad, grad);
  in.read(kMean, mean);
  in.read(kVariance, variance);
  in.read(kScale, scale);
  in.read(kBias, bias);
  in.read(kCount, count);
  if (!sums.is_none()) {
    const py::tuple pair = entries_of(call.op, "sums", sums, 2, "the sums of w and of w * z");
    in.require(kGradientSum, pair[0]);
    in.require(kProductSum, pair[1]);
  }
  call.check_stream();
  MvnGradDesc desc;
  desc.op = call.op;
  desc.kind = MvnGradKind::part;
  desc.epsilon = real_number(call.op, "Epsilon", epsilon);
  desc.activation = activation(call.op, fused);
  return gradients(call, desc, in, outputs, out);
}

}  // namespace cudml::bindings
