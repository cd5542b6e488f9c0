// Lowering: structure, then tensors, then each family's own rules, then the canonical make_plan.
#include "directml/lower.h"

#include <algorithm>
#include <cstring>
#include <string_view>

#include "directml/schema.h"
#include "directml/tensor.h"
#include "ops/activation.h"

namespace cudml::directml {
namespace {

/// A descriptor struct read by the names of its fields.
class Reader {
 public:
  Reader(const Schema& schema, const void* desc) : schema_(schema), desc_(desc) {}

  const Schema& schema() const { return schema_; }
  bool has(std::string_view name) const { return find(name) != schema_.fields.size(); }

  template <class T>
  T get(size_t index) const {
    T value;
    std::memcpy(&value, static_cast<const char*>(desc_) + offset_of(schema_, index), sizeof(T));
    return value;
  }
  template <class T>
  T get(std::string_view name) const {
    return get<T>(find(name));
  }
  /// A BOOL, or `absent` where this version of the operator has no such field.
  bool flag(std::string_view name, bool absent) const {
    return has(name) ? get<BOOL>(name) != FALSE : absent;
  }

 private:
  size_t find(std::string_view name) const {
    size_t f = 0;
    while (f < schema_.fields.size() && schema_.fields[f].name != name) ++f;
    return f;
  }

  const Schema& schema_;
  const void* desc_;
};

/// `count` entries of an array field; one of `absent` each where this version has no such field.
Dims entries(const Reader& reader, const char* name, UINT count, int64_t absent = 1) {
  if (!reader.has(name)) return Dims::filled(int(count), absent);
  const UINT* values = reader.get<const UINT*>(name);
  check(values || count == 0, reader.schema().name, ": ", name, " is null; it must point to ",
        count, count == 1 ? " entry" : " entries");
  Dims dims;
  for (UINT i = 0; i < count; ++i) dims.push_back(values[i]);
  return dims;
}

const Tensor* find_tensor(const Lowered& lowered, std::string_view field) {
  for (const Tensor& tensor : lowered.tensors)
    if (tensor.field == field) return tensor.present ? &tensor : nullptr;
  return nullptr;
}

const TensorDesc* find(const Lowered& lowered, std::string_view field) {
  const Tensor* tensor = find_tensor(lowered, field);
  return tensor ? &tensor->desc : nullptr;
}

/// All tensors agree in rank, and in type where they are no indices.
void check_agreement(const Lowered& lowered) {
  const Tensor& first = lowered.tensors.front();
  for (const Tensor& tensor : lowered.tensors) {
    if (!tensor.present) continue;
    check_type(tensor.desc.dtype == first.desc.dtype ||
                   std::string_view(tensor.field) == "OutputIndicesTensor",
               lowered.op, ": ", tensor.field, ".DataType is ", type_name(tensor.desc.dtype),
               "; it must be ", type_name(first.desc.dtype), " like that of ", first.field);
    check(tensor.desc.rank() == first.desc.rank(), lowered.op, ": ", tensor.field,
          ".DimensionCount is ", tensor.desc.rank(), "; it must be ", first.desc.rank(),
          " like that of ", first.field);
  }
}

std::vector<Tensor> read_tensors(const Reader& reader, DML_FEATURE_LEVEL level) {
  const Schema& schema = reader.schema();
  const Support& support = support_at(schema.type, level);
  std::vector<Tensor> tensors;
  for (size_t f = 0; f < schema.fields.size(); ++f) {
    const Field& field = schema.fields[f];
    if (!is_tensor(field.kind)) continue;
    Tensor tensor{field.name, is_output(field.kind), false, {}};
    const auto* pointer = reader.get<const DML_TENSOR_DESC*>(f);
    tensor.present = !is_optional(field.kind) || is_present(pointer);
    const TypeSet types = field.kind == Kind::optional_output ? support.index_types : support.types;
    if (tensor.present) {
      tensor.desc = check_tensor({schema.name, field.name, level, support.min_rank,
                                  support.max_rank, types, tensor.is_output},
                                 pointer);
      const auto& buffer = *static_cast<const DML_BUFFER_TENSOR_DESC*>(pointer->Desc);
      tensor.is_owned = (buffer.Flags & DML_TENSOR_FLAG_OWNED_BY_DML) != 0;
      tensor.total_bytes = buffer.TotalTensorSizeInBytes;
    }
    tensors.push_back(tensor);
  }
  return tensors;
}

/// Sizes beyond batch and channel.
Dims spatial(const Dims& sizes) {
  Dims result;
  for (int d = 2; d < sizes.rank; ++d) result.push_back(sizes[d]);
  return result;
}

PoolDesc read_pool(const Reader& reader, PoolKind kind, const TensorDesc& x, const TensorDesc& y) {
  const char* op = reader.schema().name;
  const UINT count = reader.get<UINT>("DimensionCount");
  check(count == UINT(x.rank()) - 2, op, ": DimensionCount is ", count, "; it must be ",
        x.rank() - 2, ", the tensors' DimensionCount less 2");
  PoolDesc desc;
  desc.op = op;
  desc.kind = kind;
  for (UINT i = 0; i < count; ++i) desc.axes.push_back(i + 2);
  desc.strides = entries(reader, "Strides", count);
  desc.window_size = entries(reader, "WindowSize", count);
  desc.start_padding = entries(reader, "StartPadding", count);
  desc.end_padding = entries(reader, "EndPadding", count);
  desc.dilations = entries(reader, "Dilations", count);
  desc.output_rule = OutputRule::given;
  desc.output_sizes = spatial(y.sizes);
  desc.include_padding = reader.flag("IncludePadding", false);
  if (reader.has("P")) desc.p = reader.get<UINT>("P");
  return desc;
}

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
}

Border read_mode(const Reader& reader, DML_FEATURE_LEVEL level) {
  const char* op = reader.schema().name;
  const auto mode = unsigned(reader.get<UINT>("PaddingMode"));
  check(mode <= DML_PADDING_MODE_WRAP, op, ": PaddingMode is ", mode,
        "; it must be 0 (CONSTANT), 1 (EDGE), 2 (REFLECTION), 3 (SYMMETRIC) or 4 (WRAP)");
  check(mode != DML_PADDING_MODE_SYMMETRIC || level >= DML_FEATURE_LEVEL_3_0, op,
        ": PaddingMode is 3 (SYMMETRIC); it is permitted from feature level 3_0 on, not at ",
        name_of(level));
  check(mode != DML_PADDING_MODE_WRAP || level >= DML_FEATURE_LEVEL_6_4, op,
        ": PaddingMode is 4 (WRAP); it is permitted from feature level 6_4 on, not at ",
        name_of(level));
  return Border(mode);
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
  const UINT count = reader.get<UINT>("DimensionCount");
  check(count == UINT(x.rank()), op, ": DimensionCount is ", count, "; it must be ", x.rank(),
        ", the tensors' DimensionCount");
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

std::string fusable_names() {
  std::string names;
  for (const Schema& schema : schemas())
    if (schema.use == Use::fusable) names += (names.empty() ? "" : ", ") + std::string(schema.name);
  return names;
}

Activation read_activation(const Reader& host, DML_FEATURE_LEVEL level) {
  const char* op = host.schema().name;
  const auto* fused = host.get<const DML_OPERATOR_DESC*>("FusedActivation");
  if (!fused) return {};
  const Schema* schema = find_schema(fused->Type);
  check(schema && schema->use == Use::fusable, op, ": FusedActivation is ",
        schema ? schema->name : "of type " + std::to_string(int(fused->Type)),
        "; it must be one of ", fusable_names());
  const auto since = DML_FEATURE_LEVEL(find_activation(schema->activation)->first_level);
  check(since <= level, op, ": FusedActivation is ", schema->name,
        "; it is permitted from feature level ", name_of(since), " on, not at ", name_of(level));
  check(fused->Desc, op, ": FusedActivation.Desc is null; it must point to a DML_", schema->name,
        "_OPERATOR_DESC");
  const Reader reader(*schema, fused->Desc);
  for (const char* name : {"InputTensor", "OutputTensor"})
    check(!reader.get<const DML_TENSOR_DESC*>(name), op, ": FusedActivation.", name,
          " is given; a fused activation has no tensors of its own, it must be null");
  Activation activation{schema->activation, 0, 0};
  if (schema->fields.size() > 2) activation.a = double(reader.get<FLOAT>(size_t{2}));
  if (schema->fields.size() > 3) activation.b = double(reader.get<FLOAT>(size_t{3}));
  check(schema->type != DML_OPERATOR_ACTIVATION_SOFTPLUS || level >= DML_FEATURE_LEVEL_6_4 ||
            activation.a >= 1,
        op, ": FusedActivation.Steepness is ", activation.a,
        "; below feature level 6_4 it must be at least 1");
  return activation;
}

Dims read_axes(const Reader& reader, int rank) {
  if (reader.has("CrossChannel"))
    return reader.flag("CrossChannel", false) ? Dims{1, 2, 3} : Dims{2, 3};
  const UINT count = reader.get<UINT>("AxisCount");
  check(count <= UINT(rank), reader.schema().name, ": AxisCount is ", count,
        "; it must be between 0 and ", rank, ", the tensors' DimensionCount");
  return entries(reader, "Axes", count);
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
  Lowered lowered{schema->name, read_tensors(reader, level), {}, {}};
  check_agreement(lowered);
  lower_family(reader, level, lowered);
  return lowered;
}

}  // namespace cudml::directml
