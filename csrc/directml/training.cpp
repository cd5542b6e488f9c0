// Max unpooling and batch normalization: their own rules, under DirectML's names, then make_plan.
#include "directml/training.h"

#include <algorithm>

#include "ops/mvn_checks.h"

namespace cudml::directml {
namespace {

/// Below feature level 4_0 statistics of locations that are not spatial have the input's height and
/// width.
void check_spatial(const Reader& reader, DML_FEATURE_LEVEL level, const Lowered& lowered) {
  if (level >= DML_FEATURE_LEVEL_4_0 || reader.flag("Spatial", true)) return;
  const Dims& sizes = find(lowered, "InputTensor")->sizes;
  for (const char* field : {"MeanTensor", "VarianceTensor"})
    for (int d = std::max(0, sizes.rank - 2); d < sizes.rank; ++d) {
      const int64_t size = find(lowered, field)->sizes[d];
      check(size == sizes[d], reader.op(), ": ", field, ".Sizes[", d, "] is ", size,
            " and Spatial is FALSE; below feature level 4_0 it must be ", sizes[d],
            " like that of InputTensor");
    }
}

/// Everything else has the sizes of MeanTensor.
void check_gradient_tensors(const char* op, const Lowered& lowered) {
  const TensorDesc &x = *find(lowered, "InputTensor"), &mean = *find(lowered, "MeanTensor");
  check_broadcast(op, "MeanTensor", x, mean);
  for (const char* field : {"VarianceTensor", "ScaleTensor"})
    check_sizes(op, field, *find(lowered, field), mean.sizes);
  for (const char* field : {"OutputScaleGradientTensor", "OutputBiasGradientTensor"})
    check_result(op, field, *find(lowered, field), x.dtype, "InputTensor's", mean.sizes);
}

}  // namespace

void lower_max_unpooling(const Reader& reader, Lowered& lowered) {
  const TensorDesc& y = *find(lowered, "OutputTensor");
  const UnpoolDesc desc{reader.op(), y.sizes};
  lowered.plan = make_plan(desc, *find(lowered, "InputTensor"), *find(lowered, "IndicesTensor"), y);
  lowered.desc = desc;
}

void lower_batch_normalization(const Reader& reader, DML_FEATURE_LEVEL level, Lowered& lowered) {
  const NormalizeTensors t{find(lowered, "InputTensor"), find(lowered, "MeanTensor"),
                           find(lowered, "VarianceTensor"), find(lowered, "ScaleTensor"),
                           find(lowered, "BiasTensor")};
  check_broadcast(reader.op(), "MeanTensor", *t.x, *t.mean);
  check_broadcast(reader.op(), "VarianceTensor", *t.x, *t.variance);
  check_spatial(reader, level, lowered);
  NormalizeDesc desc;
  desc.op = reader.op();
  desc.epsilon = double(reader.get<FLOAT>("Epsilon"));
  desc.activation = read_activation(reader, level);
  lowered.plan = make_plan(desc, t, *find(lowered, "OutputTensor"));
  lowered.desc = desc;
}

void lower_batch_normalization_grad(const Reader& reader, MvnGradKind kind, Lowered& lowered) {
  check_gradient_tensors(reader.op(), lowered);
  // There is no bias to read; that its gradient is wanted is said by a tensor of its sizes.
  TensorDesc bias = *find(lowered, "ScaleTensor");
  bias.strides = Dims::filled(bias.rank(), 0);
  MvnGradTensors t;
  t.x = find(lowered, "InputTensor");
  t.grad = find(lowered, "InputGradientTensor");
  t.scale = find(lowered, "ScaleTensor");
  t.bias = &bias;
  t.mean = find(lowered, "MeanTensor");
  t.variance = find(lowered, "VarianceTensor");
  t.outputs[0] = find(lowered, "OutputGradientTensor");
  t.outputs[1] = find(lowered, "OutputScaleGradientTensor");
  t.outputs[2] = find(lowered, "OutputBiasGradientTensor");
  MvnGradDesc desc;
  desc.op = reader.op();
  desc.kind = kind;
  desc.epsilon = double(reader.get<FLOAT>("Epsilon"));
  for (int d = 0; kind == MvnGradKind::whole && d < t.x->rank(); ++d)
    if (t.mean->sizes[d] == 1) desc.axes.push_back(d);
  lowered.plan = make_plan(desc, t);
  lowered.desc = desc;
  set_operands(lowered, {"InputTensor", "InputGradientTensor", "ScaleTensor", "BiasTensor",
                         "MeanTensor", "VarianceTensor"});
}

}  // namespace cudml::directml
