// Fields and lowering of the library's own operator descriptions. Types and sizes are for make_plan
// to judge, as they are where the functions are called.
#include "directml/own.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "directml/reader.h"
#include "directml/training.h"
#include "ops/mvn_checks.h"

namespace cudml::directml {
namespace {

using enum Kind;

constexpr Field kLpPoolingGrad[] = {{"InputTensor", input},
                                    {"OutputTensor", input},
                                    {"InputGradientTensor", input},
                                    {"OutputGradientTensor", output},
                                    {"DimensionCount", count},
                                    {"Strides", array},
                                    {"WindowSize", array},
                                    {"StartPadding", array},
                                    {"EndPadding", array},
                                    {"Dilations", array},
                                    {"P", uint}};
constexpr Field kMaxUnpooling[] = {
    {"InputTensor", input}, {"IndicesTensor", input}, {"OutputTensor", output}};
constexpr Field kPaddingGrad[] = {{"InputGradientTensor", input}, {"OutputGradientTensor", output},
                                  {"PaddingMode", mode},          {"DimensionCount", count},
                                  {"StartPadding", array},        {"EndPadding", array}};
constexpr Field kMvnGrad[] = {{"InputTensor", input},
                              {"InputGradientTensor", input},
                              {"ScaleTensor", optional_input},
                              {"BiasTensor", optional_input},
                              {"Mean", optional_input},
                              {"Variance", optional_input},
                              {"OutputGradientTensor", optional_output},
                              {"ScaleGradientTensor", optional_output},
                              {"BiasGradientTensor", optional_output},
                              {"AxisCount", count},
                              {"Axes", array},
                              {"UseMean", boolean},
                              {"UseVariance", boolean},
                              {"Epsilon", real},
                              {"FusedActivation", own_activation}};
constexpr Field kStatistics[] = {{"InputTensor", input}, {"Count", output},    {"Mean", output},
                                 {"M2", output},         {"AxisCount", count}, {"Axes", array},
                                 {"UseMean", boolean}};
constexpr Field kMerge[] = {{"CountA", input}, {"MeanA", input}, {"M2A", input},
                            {"CountB", input}, {"MeanB", input}, {"M2B", input},
                            {"Count", output}, {"Mean", output}, {"M2", output}};
constexpr Field kNormalize[] = {{"InputTensor", input},
                                {"Mean", optional_input},
                                {"Variance", optional_input},
                                {"ScaleTensor", optional_input},
                                {"BiasTensor", optional_input},
                                {"OutputTensor", output},
                                {"Epsilon", real},
                                {"FusedActivation", own_activation}};
constexpr Field kNormalizeGradSums[] = {{"InputTensor", input},
                                        {"InputGradientTensor", input},
                                        {"Mean", optional_input},
                                        {"Variance", optional_input},
                                        {"ScaleTensor", optional_input},
                                        {"BiasTensor", optional_input},
                                        {"GradientSum", output},
                                        {"ProductSum", output},
                                        {"AxisCount", count},
                                        {"Axes", array},
                                        {"Epsilon", real},
                                        {"FusedActivation", own_activation}};
constexpr Field kNormalizeGrad[] = {{"InputTensor", input},
                                    {"InputGradientTensor", input},
                                    {"Mean", optional_input},
                                    {"Variance", optional_input},
                                    {"ScaleTensor", optional_input},
                                    {"BiasTensor", optional_input},
                                    {"Count", optional_input},
                                    {"GradientSum", optional_input},
                                    {"ProductSum", optional_input},
                                    {"OutputGradientTensor", optional_output},
                                    {"ScaleGradientTensor", optional_output},
                                    {"BiasGradientTensor", optional_output},
                                    {"Epsilon", real},
                                    {"FusedActivation", own_activation}};

void lower_lp_pooling_grad(const Reader& reader, Lowered& lowered) {
  const TensorDesc &x = *find(lowered, "InputTensor"), &y = *find(lowered, "OutputTensor");
  const TensorDesc& grad = *find(lowered, "InputGradientTensor");
  PoolGradDesc desc;
  desc.forward = read_pool(reader, PoolKind::lp, x, grad);
  desc.input_sizes = x.sizes;
  lowered.plan = make_plan(desc, &x, grad, *find(lowered, "OutputGradientTensor"), &y);
  lowered.desc = desc;
}

void lower_padding_grad(const Reader& reader, Lowered& lowered) {
  const TensorDesc& grad = *find(lowered, "InputGradientTensor");
  const TensorDesc& result = *find(lowered, "OutputGradientTensor");
  const UINT count = dimension_count(reader, grad.rank());
  PadGradDesc desc;
  desc.op = reader.op();
  desc.input_sizes = result.sizes;
  desc.start_padding = entries(reader, "StartPadding", count);
  desc.end_padding = entries(reader, "EndPadding", count);
  desc.mode = read_mode(reader, DML_FEATURE_LEVEL_6_4);
  if (desc.mode == Border::constant)
    lowered.plan = make_slice_plan(desc, grad, result);
  else
    lowered.plan = make_plan(desc, grad, result);
  lowered.desc = desc;
}

/// What statistics and sums come in, which the first of them says.
Dtype wide_dtype_of(const Lowered& lowered, const char* field) {
  const Dtype dtype = find(lowered, field)->dtype;
  check_type(dtype == Dtype::float32 || dtype == Dtype::float64, lowered.op, ": ", field,
             ".DataType is ", name_of(dtype), "; it must be float32 or float64");
  return dtype;
}

void lower_statistics(const Reader& reader, Lowered& lowered) {
  const TensorDesc& x = *find(lowered, "InputTensor");
  StatisticsDesc desc;
  desc.op = reader.op();
  desc.axes = read_axes(reader, x.rank());
  desc.use_mean = reader.flag("UseMean", true);
  desc.dtype = wide_dtype_of(lowered, "Count");
  lowered.plan =
      make_plan(desc, x, *find(lowered, "Count"), *find(lowered, "Mean"), *find(lowered, "M2"));
  lowered.desc = desc;
}

void lower_merge(const Reader& reader, Lowered& lowered) {
  const Dtype dtype = wide_dtype_of(lowered, "CountA");
  std::vector<const TensorDesc*> t;
  for (const Tensor& tensor : lowered.tensors) {
    check_type(tensor.desc.dtype == dtype, reader.op(), ": ", tensor.field, ".DataType is ",
               name_of(tensor.desc.dtype), "; it must be CountA's, ", name_of(dtype));
    check_sizes(reader.op(), tensor.field, tensor.desc, lowered.tensors.front().desc.sizes);
    t.push_back(&tensor.desc);
  }
  lowered.plan = make_plan(reader.op(), {t[0], t[1], t[2]}, {t[3], t[4], t[5]}, {t[6], t[7], t[8]});
  lowered.desc = MergeDesc{};
}

Activation activation_of(const Reader& reader) {
  const auto* const activation = reader.get<const Activation*>("FusedActivation");
  return activation ? *activation : Activation{};
}

void lower_normalize(const Reader& reader, Lowered& lowered) {
  NormalizeDesc desc;
  desc.op = reader.op();
  desc.epsilon = reader.get<double>("Epsilon");
  desc.activation = activation_of(reader);
  const NormalizeTensors tensors{find(lowered, "InputTensor"), find(lowered, "Mean"),
                                 find(lowered, "Variance"), find(lowered, "ScaleTensor"),
                                 find(lowered, "BiasTensor")};
  lowered.plan = make_plan(desc, tensors, *find(lowered, "OutputTensor"));
  lowered.desc = desc;
}

/// At least one of the gradients, and none of a tensor that there is not.
void check_gradients(const Lowered& lowered) {
  check(std::any_of(lowered.tensors.begin(), lowered.tensors.end(),
                    [](const Tensor& tensor) { return tensor.is_output && tensor.present; }),
        lowered.op,
        ": OutputGradientTensor is null, and so are ScaleGradientTensor and "
        "BiasGradientTensor; one of the three must be given");
  for (const auto& [gradient, tensor] : {std::pair("ScaleGradientTensor", "ScaleTensor"),
                                         std::pair("BiasGradientTensor", "BiasTensor")})
    check(!find(lowered, gradient) || find(lowered, tensor), lowered.op, ": ", gradient,
          " is given and ", tensor, " is null; it must be null, too");
}

void lower_normalization_grad(const Reader& reader, MvnGradKind kind, Lowered& lowered) {
  MvnGradDesc desc;
  desc.op = reader.op();
  desc.kind = kind;
  MvnGradTensors t;
  t.x = find(lowered, "InputTensor");
  t.grad = find(lowered, "InputGradientTensor");
  t.scale = find(lowered, "ScaleTensor");
  t.bias = find(lowered, "BiasTensor");
  t.mean = find(lowered, "Mean");
  t.variance = find(lowered, "Variance");
  if (kind == MvnGradKind::sums) {
    desc.sum_dtype = wide_dtype_of(lowered, "GradientSum");
  } else {
    check_gradients(lowered);
    t.count = find(lowered, "Count");
    t.sums[0] = find(lowered, "GradientSum");
    t.sums[1] = find(lowered, "ProductSum");
    check(!t.sums[0] == !t.sums[1], desc.op, ": ", t.sums[0] ? "ProductSum" : "GradientSum",
          " is null; both sums must be given, or neither");
  }
  for (const Tensor& tensor : lowered.tensors)
    if (tensor.is_output && tensor.present) t.outputs[tensor.operand] = &tensor.desc;
  if (reader.has("Axes")) desc.axes = read_axes(reader, t.x->rank());
  desc.use_mean = reader.flag("UseMean", true);
  desc.use_variance = reader.flag("UseVariance", true);
  desc.epsilon = reader.get<double>("Epsilon");
  desc.activation = activation_of(reader);
  lowered.plan = make_plan(desc, t);
  lowered.desc = desc;
  set_operands(lowered, {"InputTensor", "InputGradientTensor", "ScaleTensor", "BiasTensor", "Mean",
                         "Variance", "Count", "GradientSum", "ProductSum"});
}

template <MvnGradKind kind>
void lower_normalization_grad(const Reader& reader, Lowered& lowered) {
  lower_normalization_grad(reader, kind, lowered);
}

struct Own {
  Schema schema;
  UINT min_rank, max_rank;
  void (*lower)(const Reader&, Lowered&);
};

constexpr Own own(const char* name, std::span<const Field> fields, UINT min_rank, UINT max_rank,
                  void (*lower)(const Reader&, Lowered&)) {
  return {{DML_OPERATOR_INVALID, name, DML_FEATURE_LEVEL_1_0, Use::own, 0, fields},
          min_rank,
          max_rank,
          lower};
}

constexpr Own kOwn[] = {
    own("lp_pooling_grad", kLpPoolingGrad, 3, 5, &lower_lp_pooling_grad),
    own("max_unpooling", kMaxUnpooling, 3, 5, &lower_max_unpooling),
    own("padding_grad", kPaddingGrad, 1, 8, &lower_padding_grad),
    own("mean_variance_normalization_grad", kMvnGrad, 1, 8,
        &lower_normalization_grad<MvnGradKind::whole>),
    own("normalization_statistics", kStatistics, 1, 8, &lower_statistics),
    own("merge_statistics", kMerge, 1, 8, &lower_merge),
    own("normalize", kNormalize, 1, 8, &lower_normalize),
    own("normalize_grad_sums", kNormalizeGradSums, 1, 8,
        &lower_normalization_grad<MvnGradKind::sums>),
    own("normalize_grad", kNormalizeGrad, 1, 8, &lower_normalization_grad<MvnGradKind::part>),
};

}  // namespace

const Schema* find_own(std::string_view name) {
  for (const Own& own : kOwn)
    if (own.schema.name == name) return &own.schema;
  return nullptr;
}

Lowered lower_own(const Schema& schema, const void* desc) {
  const Reader reader(schema, desc);
  const auto* const own = std::find_if(std::begin(kOwn), std::end(kOwn),
                                       [&](const Own& o) { return &o.schema == &schema; });
  const TypeSet types = all_types();
  Lowered lowered{
      schema.name, read_tensors(reader, {{}, own->min_rank, own->max_rank, types, types}), {}, {}};
  own->lower(reader, lowered);
  return lowered;
}

}  // namespace cudml::directml
