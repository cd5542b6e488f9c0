// Fields and tensors that the descriptors of several families have.
#include "directml/reader.h"

#include <algorithm>

#include "directml/tensor.h"
#include "ops/activation.h"

namespace cudml::directml {
namespace {

/// Sizes beyond batch and channel.
Dims spatial(const Dims& sizes) {
  Dims result;
  for (int d = 2; d < sizes.rank; ++d) result.push_back(sizes[d]);
  return result;
}

std::string fusable_names() {
  std::string names;
  for (const Schema& schema : schemas())
    if (schema.use == Use::fusable) names += (names.empty() ? "" : ", ") + std::string(schema.name);
  return names;
}

bool is_indices(std::string_view field) { return field.ends_with("IndicesTensor"); }

}  // namespace

size_t Reader::find(std::string_view name) const {
  size_t f = 0;
  while (f < schema_.fields.size() && schema_.fields[f].name != name) ++f;
  return f;
}

Dims entries(const Reader& reader, const char* name, UINT count) {
  if (!reader.has(name)) return Dims::filled(int(count), 1);
  const UINT* values = reader.get<const UINT*>(name);
  check(values || count == 0, reader.op(), ": ", name, " is null; it must point to ", count,
        count == 1 ? " entry" : " entries");
  Dims dims;
  for (UINT i = 0; i < count; ++i) dims.push_back(values[i]);
  return dims;
}

UINT dimension_count(const Reader& reader, int rank) {
  const UINT count = reader.get<UINT>("DimensionCount");
  check(count == UINT(rank), reader.op(), ": DimensionCount is ", count, "; it must be ", rank,
        ", the tensors' DimensionCount");
  return count;
}

PoolDesc read_pool(const Reader& reader, PoolKind kind, const TensorDesc& x, const TensorDesc& y) {
  const char* op = reader.op();
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

Border read_mode(const Reader& reader, DML_FEATURE_LEVEL level) {
  const char* op = reader.op();
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

Dims read_axes(const Reader& reader, int rank) {
  if (reader.has("CrossChannel"))
    return reader.flag("CrossChannel", false) ? Dims{1, 2, 3} : Dims{2, 3};
  const UINT count = reader.get<UINT>("AxisCount");
  check(count <= UINT(rank), reader.op(), ": AxisCount is ", count, "; it must be between 0 and ",
        rank, ", the tensors' DimensionCount");
  return entries(reader, "Axes", count);
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

std::vector<Tensor> read_tensors(const Reader& reader, const TensorRules& rules) {
  const Schema& schema = reader.schema();
  std::vector<Tensor> tensors;
  int operands[2] = {};  // of inputs and of outputs
  for (size_t f = 0; f < schema.fields.size(); ++f) {
    const Field& field = schema.fields[f];
    if (!is_tensor(field.kind)) continue;
    Tensor tensor{field.name, is_output(field.kind), false, {}};
    tensor.operand = operands[tensor.is_output]++;
    const auto* pointer = reader.get<const DML_TENSOR_DESC*>(f);
    tensor.present = !is_optional(field.kind) || is_present(pointer);
    const TypeSet types = is_indices(field.name) ? rules.index_types : rules.types;
    if (tensor.present) {
      tensor.desc = check_tensor({schema.name, field.name, rules.level, rules.min_rank,
                                  rules.max_rank, types, tensor.is_output},
                                 pointer);
      const auto& buffer = *static_cast<const DML_BUFFER_TENSOR_DESC*>(pointer->Desc);
      tensor.is_owned = (buffer.Flags & DML_TENSOR_FLAG_OWNED_BY_DML) != 0;
      tensor.total_bytes = buffer.TotalTensorSizeInBytes;
    }
    tensors.push_back(tensor);
  }
  return tensors;
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

void check_agreement(const Lowered& lowered) {
  const Tensor& first = lowered.tensors.front();
  for (const Tensor& tensor : lowered.tensors) {
    if (!tensor.present) continue;
    check_type(tensor.desc.dtype == first.desc.dtype || is_indices(tensor.field), lowered.op, ": ",
               tensor.field, ".DataType is ", type_name(tensor.desc.dtype), "; it must be ",
               type_name(first.desc.dtype), " like that of ", first.field);
    check(tensor.desc.rank() == first.desc.rank(), lowered.op, ": ", tensor.field,
          ".DimensionCount is ", tensor.desc.rank(), "; it must be ", first.desc.rank(),
          " like that of ", first.field);
  }
}

void set_operands(Lowered& lowered, std::initializer_list<std::string_view> inputs) {
  for (Tensor& tensor : lowered.tensors) {
    if (tensor.is_output) continue;
    const auto* const place = std::find(inputs.begin(), inputs.end(), tensor.field);
    tensor.operand = int(place - inputs.begin());
  }
}

}  // namespace cudml::directml
