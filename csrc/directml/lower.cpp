// Lowering: structure, then tensors, then each family's own rules, then the canonical make_plan.
#include "directml/lower.h"

#include <algorithm>
#include <cstring>
#include <string_view>

#include "directml/reader.h"
#include "directml/tensor.h"
#include "directml/training.h"

namespace cudml::directml {
namespace {

void lower_pool(const Reader& reader, PoolKind kind, Lowered& lowered) {
  const TensorDesc &x = *find(lowered, "InputTensor"), &y = *find(lowered, "OutputTensor");
  const PoolDesc desc = read_pool(reader, kind, x, y);
  lowered.plan = make_plan(desc, x, y, find(lowered, "OutputIndicesTensor"));
  lowered.desc = desc;
}

void lower_pool_grad(const Reader& reader, PoolKind kind, Lowered& lowered) {
  const TensorDesc& grad = *find(lowered, "InputGradientTensor");
  const TensorDesc& result = *find(lowered, "OutputGradientTensor");
  PoolGradDesc desc;
  desc.forward = read_pool(reader, kind, result, grad);
  desc.input_sizes = result.sizes;
  lowered.plan = make_plan(desc, find(lowered, "InputTensor"), grad, result);
  lowered.desc = desc;
  set_operands(lowered, {"InputTensor", "InputGradientTensor"});
}

/// PADDING1's constant: the low bytes of the union, as many as an element has (D-PAD-6).
PadValue read_scalar(const Reader& reader, Dtype dtype) {
  PadValue value;
  const auto scalar = reader.get<DML_SCALAR_UNION>("PaddingValue");
  std::memcpy(value.bytes, scalar.Bytes, size_of(dtype));
  return value;
}

void check_value_type(const Reader& reader, Dtype dtype) {
  const char* op = reader.schema().name;
  const auto type = DML_TENSOR_DATA_TYPE(reader.get<UINT>("PaddingValueDataType"));
  check(name_of(type), op, ": PaddingValueDataType is ", unsigned(type), "; it must be ",
        type_name(dtype), " like that of OutputTensor");
  check_type(std::string_view(name_of(type)) == type_name(dtype), op, ": PaddingValueDataType is ",
             name_of(type), "; it must be ", type_name(dtype), " like that of OutputTensor");
}

void lower_padding(const Reader& reader, DML_FEATURE_LEVEL level, Lowered& lowered) {
  const char* op = reader.schema().name;
  const TensorDesc &x = *find(lowered, "InputTensor"), &y = *find(lowered, "OutputTensor");
  const UINT count = dimension_count(reader, x.rank());
  PadDesc desc;
  desc.op = op;
  desc.start_padding = entries(reader, "StartPadding", count);
  desc.end_padding = entries(reader, "EndPadding", count);
  const Border mode = read_mode(reader, level);
  std::fill_n(desc.mode, count, mode);
  const bool typed = reader.has("PaddingValueDataType");
  if (typed) check_value_type(reader, y.dtype);
  if (mode == Border::constant)
    desc.value = typed ? read_scalar(reader, y.dtype)
                       : pad_value(op, y.dtype, double(reader.get<FLOAT>("PaddingValue")));
  lowered.plan = make_plan(desc, x, y);
  lowered.desc = desc;
}

/// Level rules for scale and bias; that sizes are 1 or the input's is checked for every caller.
void check_scale_and_bias(const Reader& reader, DML_FEATURE_LEVEL level, const Lowered& lowered) {
  const Schema& schema = reader.schema();
  const Tensor* both[] = {find_tensor(lowered, "ScaleTensor"), find_tensor(lowered, "BiasTensor")};
  const char* absent = both[0] ? "BiasTensor" : "ScaleTensor";
  check(level >= DML_FEATURE_LEVEL_5_2 || !both[0] == !both[1], schema.name, ": ", absent,
        " is null; below feature level 5_2 ScaleTensor and BiasTensor are given both or neither");
  const bool channels_equal =
      schema.type == DML_OPERATOR_MEAN_VARIANCE_NORMALIZATION1 && level < DML_FEATURE_LEVEL_4_0;
  const Dims& sizes = find(lowered, "InputTensor")->sizes;
  for (const Tensor* tensor : both)
    if (channels_equal && tensor && sizes.rank > 1)
      check(tensor->desc.sizes[1] == sizes[1], schema.name, ": ", tensor->field, ".Sizes[1] is ",
            tensor->desc.sizes[1], "; below feature level 4_0 it must be ", sizes[1],
            " like that of InputTensor");
}

void lower_mvn(const Reader& reader, DML_FEATURE_LEVEL level, Lowered& lowered) {
  const TensorDesc &x = *find(lowered, "InputTensor"), &y = *find(lowered, "OutputTensor");
  MvnDesc desc;
  desc.op = lowered.op;
  desc.axes = read_axes(reader, x.rank());
  desc.use_mean = reader.flag("UseMean", true);
  desc.use_variance =
      reader.flag(reader.has("UseVariance") ? "UseVariance" : "NormalizeVariance", true);
  desc.epsilon = double(reader.get<FLOAT>("Epsilon"));
  check_scale_and_bias(reader, level, lowered);
  desc.activation = read_activation(reader, level);
  lowered.plan = make_plan(desc, x, find(lowered, "ScaleTensor"), find(lowered, "BiasTensor"), y);
  lowered.desc = desc;
}

void lower_family(const Reader& reader, DML_FEATURE_LEVEL level, Lowered& lowered) {
  switch (reader.schema().type) {
    case DML_OPERATOR_MAX_POOLING:
    case DML_OPERATOR_MAX_POOLING1:
    case DML_OPERATOR_MAX_POOLING2: return lower_pool(reader, PoolKind::max, lowered);
    case DML_OPERATOR_AVERAGE_POOLING:
    case DML_OPERATOR_AVERAGE_POOLING1: return lower_pool(reader, PoolKind::average, lowered);
    case DML_OPERATOR_LP_POOLING:
    case DML_OPERATOR_LP_POOLING1: return lower_pool(reader, PoolKind::lp, lowered);
    case DML_OPERATOR_MAX_POOLING_GRAD: return lower_pool_grad(reader, PoolKind::max, lowered);
    case DML_OPERATOR_AVERAGE_POOLING_GRAD:
      return lower_pool_grad(reader, PoolKind::average, lowered);
    case DML_OPERATOR_PADDING:
    case DML_OPERATOR_PADDING1: return lower_padding(reader, level, lowered);
    case DML_OPERATOR_MAX_UNPOOLING: return lower_max_unpooling(reader, lowered);
    case DML_OPERATOR_BATCH_NORMALIZATION: return lower_batch_normalization(reader, level, lowered);
    case DML_OPERATOR_BATCH_NORMALIZATION_GRAD:
      return lower_batch_normalization_grad(reader, MvnGradKind::part, lowered);
    case DML_OPERATOR_BATCH_NORMALIZATION_TRAINING_GRAD:
      return lower_batch_normalization_grad(reader, MvnGradKind::whole, lowered);
    default: return lower_mvn(reader, level, lowered);
  }
}

std::string host_names() {
  std::string names;
  for (const Schema& schema : schemas())
    if (schema.use == Use::host) names += (names.empty() ? "" : ", ") + std::string(schema.name);
  return names;
}

}  // namespace

Lowered lower(const DML_OPERATOR_DESC& desc, DML_FEATURE_LEVEL level) {
  check(name_of(level), "DML_FEATURE_LEVEL is ", unsigned(level), "; it must be one of ",
        level_names());
  const Schema* schema = find_schema(desc.Type);
  check(schema && schema->use == Use::host, "DML_OPERATOR_DESC: Type is ",
        schema ? schema->name : std::to_string(int(desc.Type)), "; it must be one of ",
        host_names());
  check(schema->since <= level, schema->name, ": the feature level is ", name_of(level),
        "; the operator was introduced at ", name_of(schema->since));
  check(desc.Desc, schema->name, ": Desc is null; it must point to a DML_", schema->name,
        "_OPERATOR_DESC");
  const Reader reader(*schema, desc.Desc);
  const Support& support = support_at(schema->type, level);
  Lowered lowered{schema->name,
                  read_tensors(reader, {level, support.min_rank, support.max_rank, support.types,
                                        support.index_types}),
                  {},
                  {}};
  check_agreement(lowered);
  lower_family(reader, level, lowered);
  return lowered;
}

}  // namespace cudml::directml
