// The rows of the field tables.
#include "directml/schema.h"

namespace cudml::directml {
namespace {

using enum Kind;

constexpr Field kMaxPooling[] = {
    {"InputTensor", input}, {"OutputTensor", output}, {"DimensionCount", count}, {"Strides", array},
    {"WindowSize", array},  {"StartPadding", array},  {"EndPadding", array}};
constexpr Field kMaxPooling1[] = {
    {"InputTensor", input},    {"OutputTensor", output}, {"OutputIndicesTensor", optional_output},
    {"DimensionCount", count}, {"Strides", array},       {"WindowSize", array},
    {"StartPadding", array},   {"EndPadding", array}};
constexpr Field kMaxPooling2[] = {
    {"InputTensor", input},    {"OutputTensor", output}, {"OutputIndicesTensor", optional_output},
    {"DimensionCount", count}, {"Strides", array},       {"WindowSize", array},
    {"StartPadding", array},   {"EndPadding", array},    {"Dilations", array}};
constexpr Field kMaxPoolingGrad[] = {{"InputTensor", input},
                                     {"InputGradientTensor", input},
                                     {"OutputGradientTensor", output},
                                     {"DimensionCount", count},
                                     {"Strides", array},
                                     {"WindowSize", array},
                                     {"StartPadding", array},
                                     {"EndPadding", array},
                                     {"Dilations", array}};
constexpr Field kAveragePooling[] = {{"InputTensor", input},    {"OutputTensor", output},
                                     {"DimensionCount", count}, {"Strides", array},
                                     {"WindowSize", array},     {"StartPadding", array},
                                     {"EndPadding", array},     {"IncludePadding", boolean}};
constexpr Field kAveragePooling1[] = {
    {"InputTensor", input}, {"OutputTensor", output}, {"DimensionCount", count},
    {"Strides", array},     {"WindowSize", array},    {"StartPadding", array},
    {"EndPadding", array},  {"Dilations", array},     {"IncludePadding", boolean}};
constexpr Field kAveragePoolingGrad[] = {
    {"InputGradientTensor", input}, {"OutputGradientTensor", output},
    {"DimensionCount", count},      {"Strides", array},
    {"WindowSize", array},          {"StartPadding", array},
    {"EndPadding", array},          {"IncludePadding", boolean}};
constexpr Field kLpPooling[] = {
    {"InputTensor", input}, {"OutputTensor", output}, {"DimensionCount", count}, {"Strides", array},
    {"WindowSize", array},  {"StartPadding", array},  {"EndPadding", array},     {"P", uint}};
constexpr Field kLpPooling1[] = {
    {"InputTensor", input}, {"OutputTensor", output}, {"DimensionCount", count},
    {"Strides", array},     {"WindowSize", array},    {"StartPadding", array},
    {"EndPadding", array},  {"Dilations", array},     {"P", uint}};
constexpr Field kPadding[] = {{"InputTensor", input},    {"OutputTensor", output},
                              {"PaddingMode", mode},     {"PaddingValue", number},
                              {"DimensionCount", count}, {"StartPadding", array},
                              {"EndPadding", array}};
constexpr Field kPadding1[] = {{"InputTensor", input},   {"OutputTensor", output},
                               {"PaddingMode", mode},    {"PaddingValueDataType", data_type},
                               {"PaddingValue", scalar}, {"DimensionCount", count},
                               {"StartPadding", array},  {"EndPadding", array}};
constexpr Field kMvn[] = {
    {"InputTensor", input},   {"ScaleTensor", optional_input}, {"BiasTensor", optional_input},
    {"OutputTensor", output}, {"CrossChannel", boolean},       {"NormalizeVariance", boolean},
    {"Epsilon", number},      {"FusedActivation", activation}};
constexpr Field kMvn1[] = {{"InputTensor", input},         {"ScaleTensor", optional_input},
                           {"BiasTensor", optional_input}, {"OutputTensor", output},
                           {"AxisCount", count},           {"Axes", array},
                           {"NormalizeVariance", boolean}, {"Epsilon", number},
                           {"FusedActivation", activation}};
constexpr Field kMvn2[] = {{"InputTensor", input},
                           {"ScaleTensor", optional_input},
                           {"BiasTensor", optional_input},
                           {"OutputTensor", output},
                           {"AxisCount", count},
                           {"Axes", array},
                           {"UseMean", boolean},
                           {"UseVariance", boolean},
                           {"Epsilon", number},
                           {"FusedActivation", activation}};
constexpr Field kMaxUnpooling[] = {
    {"InputTensor", input}, {"IndicesTensor", input}, {"OutputTensor", output}};
constexpr Field kBatchNormalization[] = {
    {"InputTensor", input}, {"MeanTensor", input}, {"VarianceTensor", input},
    {"ScaleTensor", input}, {"BiasTensor", input}, {"OutputTensor", output},
    {"Spatial", boolean},   {"Epsilon", number},   {"FusedActivation", activation}};
constexpr Field kBatchNormalizationGrad[] = {{"InputTensor", input},
                                             {"InputGradientTensor", input},
                                             {"MeanTensor", input},
                                             {"VarianceTensor", input},
                                             {"ScaleTensor", input},
                                             {"OutputGradientTensor", output},
                                             {"OutputScaleGradientTensor", output},
                                             {"OutputBiasGradientTensor", output},
                                             {"Epsilon", number}};

// An activation's tensors may be null as far as its own struct goes; fusing demands it.
constexpr Field kInputTensor{"InputTensor", optional_input};
constexpr Field kOutputTensor{"OutputTensor", optional_output};
constexpr Field kPlain[] = {kInputTensor, kOutputTensor};
constexpr Field kAlpha[] = {kInputTensor, kOutputTensor, {"Alpha", number}};
constexpr Field kAlphaBeta[] = {kInputTensor, kOutputTensor, {"Alpha", number}, {"Beta", number}};
constexpr Field kAlphaGamma[] = {kInputTensor, kOutputTensor, {"Alpha", number}, {"Gamma", number}};
constexpr Field kShrink[] = {kInputTensor, kOutputTensor, {"Bias", number}, {"Threshold", number}};
constexpr Field kSteepness[] = {kInputTensor, kOutputTensor, {"Steepness", number}};

constexpr DML_FEATURE_LEVEL k1_0 = DML_FEATURE_LEVEL_1_0, k2_0 = DML_FEATURE_LEVEL_2_0,
                            k2_1 = DML_FEATURE_LEVEL_2_1, k3_0 = DML_FEATURE_LEVEL_3_0,
                            k3_1 = DML_FEATURE_LEVEL_3_1, k4_1 = DML_FEATURE_LEVEL_4_1,
                            k5_0 = DML_FEATURE_LEVEL_5_0, k6_2 = DML_FEATURE_LEVEL_6_2,
                            k6_3 = DML_FEATURE_LEVEL_6_3;

template <class Struct>
constexpr Schema host(DML_OPERATOR_TYPE type, const char* name, DML_FEATURE_LEVEL since,
                      std::span<const Field> fields) {
  return {type, name, since, Use::host, sizeof(Struct), fields};
}

template <class Struct>
constexpr Schema fusable(DML_OPERATOR_TYPE type, const char* name, ActivationKind activation,
                         std::span<const Field> fields) {
  // Its feature level stands in the table of activations.
  return {type, name, k1_0, Use::fusable, sizeof(Struct), fields, activation};
}

/// Refused before a field is read, so no fields are listed.
constexpr Schema not_fusable(DML_OPERATOR_TYPE type, const char* name) {
  return {type, name, k1_0, Use::not_fusable, 0, {}};
}

constexpr Schema kSchemas[] = {
    host<DML_MAX_POOLING_OPERATOR_DESC>(DML_OPERATOR_MAX_POOLING, "MAX_POOLING", k1_0, kMaxPooling),
    host<DML_MAX_POOLING1_OPERATOR_DESC>(DML_OPERATOR_MAX_POOLING1, "MAX_POOLING1", k2_0,
                                         kMaxPooling1),
    host<DML_MAX_POOLING2_OPERATOR_DESC>(DML_OPERATOR_MAX_POOLING2, "MAX_POOLING2", k2_1,
                                         kMaxPooling2),
    host<DML_MAX_POOLING_GRAD_OPERATOR_DESC>(DML_OPERATOR_MAX_POOLING_GRAD, "MAX_POOLING_GRAD",
                                             k3_0, kMaxPoolingGrad),
    host<DML_MAX_UNPOOLING_OPERATOR_DESC>(DML_OPERATOR_MAX_UNPOOLING, "MAX_UNPOOLING", k2_0,
                                          kMaxUnpooling),
    host<DML_AVERAGE_POOLING_OPERATOR_DESC>(DML_OPERATOR_AVERAGE_POOLING, "AVERAGE_POOLING", k1_0,
                                            kAveragePooling),
    host<DML_AVERAGE_POOLING1_OPERATOR_DESC>(DML_OPERATOR_AVERAGE_POOLING1, "AVERAGE_POOLING1",
                                             k6_2, kAveragePooling1),
    host<DML_AVERAGE_POOLING_GRAD_OPERATOR_DESC>(DML_OPERATOR_AVERAGE_POOLING_GRAD,
                                                 "AVERAGE_POOLING_GRAD", k3_0, kAveragePoolingGrad),
    host<DML_LP_POOLING_OPERATOR_DESC>(DML_OPERATOR_LP_POOLING, "LP_POOLING", k1_0, kLpPooling),
    host<DML_LP_POOLING1_OPERATOR_DESC>(DML_OPERATOR_LP_POOLING1, "LP_POOLING1", k6_2, kLpPooling1),
    host<DML_PADDING_OPERATOR_DESC>(DML_OPERATOR_PADDING, "PADDING", k1_0, kPadding),
    host<DML_PADDING1_OPERATOR_DESC>(DML_OPERATOR_PADDING1, "PADDING1", k5_0, kPadding1),
    host<DML_MEAN_VARIANCE_NORMALIZATION_OPERATOR_DESC>(DML_OPERATOR_MEAN_VARIANCE_NORMALIZATION,
                                                        "MEAN_VARIANCE_NORMALIZATION", k1_0, kMvn),
    host<DML_MEAN_VARIANCE_NORMALIZATION1_OPERATOR_DESC>(
        DML_OPERATOR_MEAN_VARIANCE_NORMALIZATION1, "MEAN_VARIANCE_NORMALIZATION1", k2_1, kMvn1),
    host<DML_MEAN_VARIANCE_NORMALIZATION2_OPERATOR_DESC>(
        DML_OPERATOR_MEAN_VARIANCE_NORMALIZATION2, "MEAN_VARIANCE_NORMALIZATION2", k6_3, kMvn2),
    host<DML_BATCH_NORMALIZATION_OPERATOR_DESC>(DML_OPERATOR_BATCH_NORMALIZATION,
                                                "BATCH_NORMALIZATION", k1_0, kBatchNormalization),
    host<DML_BATCH_NORMALIZATION_GRAD_OPERATOR_DESC>(DML_OPERATOR_BATCH_NORMALIZATION_GRAD,
                                                     "BATCH_NORMALIZATION_GRAD", k3_1,
                                                     kBatchNormalizationGrad),
    host<DML_BATCH_NORMALIZATION_TRAINING_GRAD_OPERATOR_DESC>(
        DML_OPERATOR_BATCH_NORMALIZATION_TRAINING_GRAD, "BATCH_NORMALIZATION_TRAINING_GRAD", k4_1,
        kBatchNormalizationGrad),
    fusable<DML_ACTIVATION_CELU_OPERATOR_DESC>(DML_OPERATOR_ACTIVATION_CELU, "ACTIVATION_CELU",
                                               ActivationKind::celu, kAlpha),
    fusable<DML_ACTIVATION_ELU_OPERATOR_DESC>(DML_OPERATOR_ACTIVATION_ELU, "ACTIVATION_ELU",
                                              ActivationKind::elu, kAlpha),
    fusable<DML_ACTIVATION_GELU_OPERATOR_DESC>(DML_OPERATOR_ACTIVATION_GELU, "ACTIVATION_GELU",
                                               ActivationKind::gelu, kPlain),
    fusable<DML_ACTIVATION_HARD_SIGMOID_OPERATOR_DESC>(DML_OPERATOR_ACTIVATION_HARD_SIGMOID,
                                                       "ACTIVATION_HARD_SIGMOID",
                                                       ActivationKind::hard_sigmoid, kAlphaBeta),
    fusable<DML_ACTIVATION_IDENTITY_OPERATOR_DESC>(
        DML_OPERATOR_ACTIVATION_IDENTITY, "ACTIVATION_IDENTITY", ActivationKind::identity, kPlain),
    fusable<DML_ACTIVATION_LEAKY_RELU_OPERATOR_DESC>(DML_OPERATOR_ACTIVATION_LEAKY_RELU,
                                                     "ACTIVATION_LEAKY_RELU",
                                                     ActivationKind::leaky_relu, kAlpha),
    fusable<DML_ACTIVATION_LINEAR_OPERATOR_DESC>(
        DML_OPERATOR_ACTIVATION_LINEAR, "ACTIVATION_LINEAR", ActivationKind::linear, kAlphaBeta),
    fusable<DML_ACTIVATION_PARAMETRIC_SOFTPLUS_OPERATOR_DESC>(
        DML_OPERATOR_ACTIVATION_PARAMETRIC_SOFTPLUS, "ACTIVATION_PARAMETRIC_SOFTPLUS",
        ActivationKind::parametric_softplus, kAlphaBeta),
    fusable<DML_ACTIVATION_RELU_OPERATOR_DESC>(DML_OPERATOR_ACTIVATION_RELU, "ACTIVATION_RELU",
                                               ActivationKind::relu, kPlain),
    fusable<DML_ACTIVATION_SCALED_ELU_OPERATOR_DESC>(DML_OPERATOR_ACTIVATION_SCALED_ELU,
                                                     "ACTIVATION_SCALED_ELU",
                                                     ActivationKind::scaled_elu, kAlphaGamma),
    fusable<DML_ACTIVATION_SCALED_TANH_OPERATOR_DESC>(DML_OPERATOR_ACTIVATION_SCALED_TANH,
                                                      "ACTIVATION_SCALED_TANH",
                                                      ActivationKind::scaled_tanh, kAlphaBeta),
    fusable<DML_ACTIVATION_SHRINK_OPERATOR_DESC>(
        DML_OPERATOR_ACTIVATION_SHRINK, "ACTIVATION_SHRINK", ActivationKind::shrink, kShrink),
    fusable<DML_ACTIVATION_SIGMOID_OPERATOR_DESC>(
        DML_OPERATOR_ACTIVATION_SIGMOID, "ACTIVATION_SIGMOID", ActivationKind::sigmoid, kPlain),
    fusable<DML_ACTIVATION_SOFTPLUS_OPERATOR_DESC>(DML_OPERATOR_ACTIVATION_SOFTPLUS,
                                                   "ACTIVATION_SOFTPLUS", ActivationKind::softplus,
                                                   kSteepness),
    fusable<DML_ACTIVATION_SOFTSIGN_OPERATOR_DESC>(
        DML_OPERATOR_ACTIVATION_SOFTSIGN, "ACTIVATION_SOFTSIGN", ActivationKind::softsign, kPlain),
    fusable<DML_ACTIVATION_TANH_OPERATOR_DESC>(DML_OPERATOR_ACTIVATION_TANH, "ACTIVATION_TANH",
                                               ActivationKind::tanh, kPlain),
    fusable<DML_ACTIVATION_THRESHOLDED_RELU_OPERATOR_DESC>(
        DML_OPERATOR_ACTIVATION_THRESHOLDED_RELU, "ACTIVATION_THRESHOLDED_RELU",
        ActivationKind::thresholded_relu, kAlpha),
    not_fusable(DML_OPERATOR_ACTIVATION_HARDMAX, "ACTIVATION_HARDMAX"),
    not_fusable(DML_OPERATOR_ACTIVATION_HARDMAX1, "ACTIVATION_HARDMAX1"),
    not_fusable(DML_OPERATOR_ACTIVATION_HARD_SWISH, "ACTIVATION_HARD_SWISH"),
    not_fusable(DML_OPERATOR_ACTIVATION_LOG_SOFTMAX, "ACTIVATION_LOG_SOFTMAX"),
    not_fusable(DML_OPERATOR_ACTIVATION_LOG_SOFTMAX1, "ACTIVATION_LOG_SOFTMAX1"),
    not_fusable(DML_OPERATOR_ACTIVATION_PARAMETERIZED_RELU, "ACTIVATION_PARAMETERIZED_RELU"),
    not_fusable(DML_OPERATOR_ACTIVATION_SOFTMAX, "ACTIVATION_SOFTMAX"),
    not_fusable(DML_OPERATOR_ACTIVATION_SOFTMAX1, "ACTIVATION_SOFTMAX1"),
    not_fusable(DML_OPERATOR_ACTIVATION_SWISH, "ACTIVATION_SWISH"),
    not_fusable(DML_OPERATOR_ELEMENT_WISE_CLIP, "ELEMENT_WISE_CLIP"),
};

/// Bytes of a field; also its alignment.
constexpr size_t size_of(Kind kind) {
  switch (kind) {
    case count:
    case uint:
    case boolean:
    case number:
    case mode:
    case data_type: return 4;
    case scalar:
    case real: return 8;
    default: return sizeof(void*);
  }
}

constexpr size_t align_up(size_t offset, size_t alignment) {
  return (offset + alignment - 1) / alignment * alignment;
}

constexpr size_t place(std::span<const Field> fields, size_t index) {
  size_t offset = 0;
  for (size_t f = 0; f < index; ++f)
    offset = align_up(offset, size_of(fields[f].kind)) + size_of(fields[f].kind);
  return align_up(offset, index < fields.size() ? size_of(fields[index].kind) : alignof(void*));
}

constexpr bool layouts_agree() {
  for (const Schema& schema : kSchemas)
    if (place(schema.fields, schema.fields.size()) != schema.size) return false;
  return true;
}
static_assert(layouts_agree(), "a field table does not describe its struct");

}  // namespace

size_t offset_of(const Schema& schema, size_t index) { return place(schema.fields, index); }

const Schema* find_schema(DML_OPERATOR_TYPE type) {
  for (const Schema& schema : kSchemas)
    if (schema.type == type) return &schema;
  return nullptr;
}

const Schema* find_schema(std::string_view name) {
  for (const Schema& schema : kSchemas)
    if (schema.name == name) return &schema;
  return nullptr;
}

std::span<const Schema> schemas() { return kSchemas; }

}  // namespace cudml::directml
