// One operator of each version, described as a DirectML program describes it, and printed lowered.
#include <DirectML.h>

#include <cstdio>
#include <initializer_list>
#include <stdexcept>
#include <vector>

#include "directml/lower.h"

namespace {

// The helper of DirectML's documentation, which programs carry with them.
UINT64 DMLCalcBufferTensorSize(DML_TENSOR_DATA_TYPE dataType, UINT dimensionCount,
                               const UINT* sizes, const UINT* strides) {
  UINT64 elementSize = 4;
  if (dataType == DML_TENSOR_DATA_TYPE_FLOAT16) elementSize = 2;
  if (dataType == DML_TENSOR_DATA_TYPE_UINT64) elementSize = 8;
  if (dataType == DML_TENSOR_DATA_TYPE_INT8) elementSize = 1;
  UINT64 last = 0, packed = 1;
  for (UINT i = dimensionCount; i-- > 0; packed *= sizes[i])
    last += UINT64(sizes[i] - 1) * (strides ? strides[i] : packed);
  return ((last + 1) * elementSize + 3) & ~UINT64(3);
}

struct Tensor {
  std::vector<UINT> sizes, strides;
  DML_BUFFER_TENSOR_DESC bufferDesc = {};
  DML_TENSOR_DESC tensorDesc = {};

  Tensor(DML_TENSOR_DATA_TYPE dataType, std::initializer_list<UINT> tensorSizes,
         std::initializer_list<UINT> tensorStrides = {})
      : sizes(tensorSizes), strides(tensorStrides) {
    bufferDesc.DataType = dataType;
    bufferDesc.Flags = DML_TENSOR_FLAG_NONE;
    bufferDesc.DimensionCount = static_cast<UINT>(sizes.size());
    bufferDesc.Sizes = sizes.data();
    bufferDesc.Strides = strides.empty() ? nullptr : strides.data();
    bufferDesc.TotalTensorSizeInBytes = DMLCalcBufferTensorSize(
        dataType, bufferDesc.DimensionCount, bufferDesc.Sizes, bufferDesc.Strides);
    bufferDesc.GuaranteedBaseOffsetAlignment = 0;
    tensorDesc.Type = DML_TENSOR_TYPE_BUFFER;
    tensorDesc.Desc = &bufferDesc;
  }
  Tensor(const Tensor&) = delete;
  const DML_TENSOR_DESC* operator&() const { return &tensorDesc; }
};

void CreateOperator(DML_OPERATOR_TYPE type, const void* desc,
                    DML_FEATURE_LEVEL level = DML_FEATURE_LEVEL_6_4) {
  DML_OPERATOR_DESC operatorDesc = {};
  operatorDesc.Type = type;
  operatorDesc.Desc = desc;
  const auto lowered = cudml::directml::lower(operatorDesc, level);
  std::fputs(cudml::directml::describe(lowered).c_str(), stdout);
}

const UINT strides[] = {2, 1}, windowSize[] = {3, 2}, startPadding[] = {1, 0},
           endPadding[] = {0, 1}, dilations[] = {1, 3};
const DML_TENSOR_DATA_TYPE kFloat = DML_TENSOR_DATA_TYPE_FLOAT32;

template <class Desc>
void SetWindow(Desc& desc) {
  desc.DimensionCount = 2;
  desc.Strides = strides;
  desc.WindowSize = windowSize;
  desc.StartPadding = startPadding;
  desc.EndPadding = endPadding;
}

void MaxPooling() {
  Tensor input(kFloat, {2, 3, 7, 8}), output(kFloat, {2, 3, 3, 8});
  Tensor dilated(kFloat, {2, 3, 3, 6}, {54, 1, 18, 3});
  Tensor indices(DML_TENSOR_DATA_TYPE_UINT32, {2, 3, 3, 8});
  Tensor wideIndices(DML_TENSOR_DATA_TYPE_UINT64, {2, 3, 3, 6});

  DML_MAX_POOLING_OPERATOR_DESC pooling = {};
  pooling.InputTensor = &input;
  pooling.OutputTensor = &output;
  SetWindow(pooling);
  CreateOperator(DML_OPERATOR_MAX_POOLING, &pooling, DML_FEATURE_LEVEL_1_0);

  DML_MAX_POOLING1_OPERATOR_DESC pooling1 = {};
  pooling1.InputTensor = &input;
  pooling1.OutputTensor = &output;
  pooling1.OutputIndicesTensor = &indices;
  SetWindow(pooling1);
  CreateOperator(DML_OPERATOR_MAX_POOLING1, &pooling1);

  const DML_MAX_POOLING2_OPERATOR_DESC pooling2 = {
      &input, &dilated, &wideIndices, 2, strides, windowSize, startPadding, endPadding, dilations};
  CreateOperator(DML_OPERATOR_MAX_POOLING2, &pooling2);

  DML_MAX_POOLING_GRAD_OPERATOR_DESC gradient = {};
  gradient.InputTensor = &input;
  gradient.InputGradientTensor = &dilated;
  gradient.OutputGradientTensor = &input;
  SetWindow(gradient);
  gradient.Dilations = dilations;
  CreateOperator(DML_OPERATOR_MAX_POOLING_GRAD, &gradient);
}

void AveragePooling() {
  const DML_TENSOR_DATA_TYPE half = DML_TENSOR_DATA_TYPE_FLOAT16;
  Tensor input(half, {2, 3, 7, 8}), output(half, {2, 3, 3, 8}), dilated(half, {2, 3, 3, 6});

  DML_AVERAGE_POOLING_OPERATOR_DESC pooling = {};
  pooling.InputTensor = &input;
  pooling.OutputTensor = &output;
  SetWindow(pooling);
  pooling.IncludePadding = TRUE;
  CreateOperator(DML_OPERATOR_AVERAGE_POOLING, &pooling);

  DML_AVERAGE_POOLING1_OPERATOR_DESC pooling1 = {};
  pooling1.InputTensor = &input;
  pooling1.OutputTensor = &dilated;
  SetWindow(pooling1);
  pooling1.Dilations = dilations;
  pooling1.IncludePadding = FALSE;
  CreateOperator(DML_OPERATOR_AVERAGE_POOLING1, &pooling1);

  DML_AVERAGE_POOLING_GRAD_OPERATOR_DESC gradient = {};
  gradient.InputGradientTensor = &output;
  gradient.OutputGradientTensor = &input;
  SetWindow(gradient);
  gradient.IncludePadding = 256;  // any non-zero BOOL is true
  CreateOperator(DML_OPERATOR_AVERAGE_POOLING_GRAD, &gradient);
}

void LpPooling() {
  Tensor input(kFloat, {2, 3, 7, 8}), output(kFloat, {2, 3, 3, 8}), dilated(kFloat, {2, 3, 3, 6});

  DML_LP_POOLING_OPERATOR_DESC pooling = {};
  pooling.InputTensor = &input;
  pooling.OutputTensor = &output;
  SetWindow(pooling);
  pooling.P = 2;
  CreateOperator(DML_OPERATOR_LP_POOLING, &pooling);

  DML_LP_POOLING1_OPERATOR_DESC pooling1 = {};
  pooling1.InputTensor = &input;
  pooling1.OutputTensor = &dilated;
  SetWindow(pooling1);
  pooling1.Dilations = dilations;
  pooling1.P = 7;
  CreateOperator(DML_OPERATOR_LP_POOLING1, &pooling1);
}

void Padding() {
  const UINT start[] = {0, 0, 1, 2}, end[] = {0, 0, 3, 4};
  Tensor input(DML_TENSOR_DATA_TYPE_FLOAT16, {1, 1, 4, 4});
  Tensor output(DML_TENSOR_DATA_TYPE_FLOAT16, {1, 1, 8, 10});
  Tensor bytes(DML_TENSOR_DATA_TYPE_INT8, {1, 1, 4, 4});
  Tensor paddedBytes(DML_TENSOR_DATA_TYPE_INT8, {1, 1, 8, 10});

  DML_PADDING_OPERATOR_DESC padding = {};
  padding.InputTensor = &input;
  padding.OutputTensor = &output;
  padding.PaddingMode = DML_PADDING_MODE_CONSTANT;
  padding.PaddingValue = 10.6f;
  padding.DimensionCount = 4;
  padding.StartPadding = start;
  padding.EndPadding = end;
  CreateOperator(DML_OPERATOR_PADDING, &padding);

  DML_PADDING1_OPERATOR_DESC padding1 = {};
  padding1.InputTensor = &bytes;
  padding1.OutputTensor = &paddedBytes;
  padding1.PaddingMode = DML_PADDING_MODE_CONSTANT;
  padding1.PaddingValueDataType = DML_TENSOR_DATA_TYPE_INT8;
  padding1.PaddingValue.Int64 = -7;  // only the low byte is looked at
  padding1.DimensionCount = 4;
  padding1.StartPadding = start;
  padding1.EndPadding = end;
  CreateOperator(DML_OPERATOR_PADDING1, &padding1);

  padding1.PaddingMode = DML_PADDING_MODE_WRAP;
  CreateOperator(DML_OPERATOR_PADDING1, &padding1);
}

void MeanVarianceNormalization() {
  const UINT axes[] = {3, 1};
  Tensor input(kFloat, {2, 3, 4, 5}), output(kFloat, {2, 3, 4, 5}, {60, 1, 15, 3});
  Tensor perChannel(kFloat, {1, 3, 1, 1}), broadcast(kFloat, {2, 3, 4, 5}, {0, 1, 0, 0});
  DML_TENSOR_DESC absent = {};
  absent.Type = DML_TENSOR_TYPE_INVALID;

  DML_MEAN_VARIANCE_NORMALIZATION_OPERATOR_DESC mvn = {};
  mvn.InputTensor = &input;
  mvn.OutputTensor = &output;
  mvn.CrossChannel = TRUE;
  mvn.NormalizeVariance = TRUE;
  mvn.Epsilon = 1e-5f;
  CreateOperator(DML_OPERATOR_MEAN_VARIANCE_NORMALIZATION, &mvn);

  DML_ACTIVATION_LEAKY_RELU_OPERATOR_DESC leakyRelu = {};
  leakyRelu.Alpha = 0.125f;
  const DML_OPERATOR_DESC activation = {DML_OPERATOR_ACTIVATION_LEAKY_RELU, &leakyRelu};
  DML_MEAN_VARIANCE_NORMALIZATION1_OPERATOR_DESC mvn1 = {};
  mvn1.InputTensor = &input;
  mvn1.ScaleTensor = &perChannel;
  mvn1.BiasTensor = &broadcast;
  mvn1.OutputTensor = &output;
  mvn1.AxisCount = 2;
  mvn1.Axes = axes;
  mvn1.NormalizeVariance = FALSE;
  mvn1.Epsilon = 0.5f;
  mvn1.FusedActivation = &activation;
  CreateOperator(DML_OPERATOR_MEAN_VARIANCE_NORMALIZATION1, &mvn1);

  DML_ACTIVATION_SHRINK_OPERATOR_DESC shrink = {};
  shrink.Bias = 0.25f;
  shrink.Threshold = 0.5f;
  const DML_OPERATOR_DESC fused = {DML_OPERATOR_ACTIVATION_SHRINK, &shrink};
  DML_MEAN_VARIANCE_NORMALIZATION2_OPERATOR_DESC mvn2 = {};
  mvn2.InputTensor = &input;
  mvn2.ScaleTensor = &absent;
  mvn2.BiasTensor = &perChannel;
  mvn2.OutputTensor = &input;
  mvn2.AxisCount = 0;
  mvn2.UseMean = FALSE;
  mvn2.UseVariance = TRUE;
  mvn2.Epsilon = 0;
  mvn2.FusedActivation = &fused;
  CreateOperator(DML_OPERATOR_MEAN_VARIANCE_NORMALIZATION2, &mvn2);
}

void MaxUnpooling() {
  Tensor input(DML_TENSOR_DATA_TYPE_INT16, {2, 3, 4, 5});
  Tensor indices(DML_TENSOR_DATA_TYPE_UINT64, {2, 3, 4, 5}, {0, 20, 5, 1});
  Tensor output(DML_TENSOR_DATA_TYPE_INT16, {2, 3, 9, 8});
  const DML_MAX_UNPOOLING_OPERATOR_DESC unpooling = {&input, &indices, &output};
  CreateOperator(DML_OPERATOR_MAX_UNPOOLING, &unpooling);
}

void BatchNormalization() {
  Tensor input(kFloat, {2, 3, 4, 5}), output(kFloat, {2, 3, 4, 5}, {60, 1, 15, 3});
  Tensor one(kFloat, {1, 3, 1, 1}), mean(kFloat, {1, 3, 4, 5}), variance(kFloat, {2, 1, 4, 5});
  Tensor bias(kFloat, {1, 1, 1, 5});

  DML_ACTIVATION_SHRINK_OPERATOR_DESC shrink = {};
  shrink.Bias = 0.25f;
  shrink.Threshold = 0.5f;
  const DML_OPERATOR_DESC fused = {DML_OPERATOR_ACTIVATION_SHRINK, &shrink};
  DML_BATCH_NORMALIZATION_OPERATOR_DESC normalization = {};
  normalization.InputTensor = &input;
  normalization.MeanTensor = &mean;
  normalization.VarianceTensor = &variance;
  normalization.ScaleTensor = &one;
  normalization.BiasTensor = &bias;
  normalization.OutputTensor = &output;
  normalization.Epsilon = 0.5f;
  normalization.FusedActivation = &fused;
  CreateOperator(DML_OPERATOR_BATCH_NORMALIZATION, &normalization, DML_FEATURE_LEVEL_2_0);

  const DML_BATCH_NORMALIZATION_GRAD_OPERATOR_DESC gradient = {&input,  &output, &one, &one, &one,
                                                               &output, &one,    &one, 0.5f};
  CreateOperator(DML_OPERATOR_BATCH_NORMALIZATION_GRAD, &gradient);
  const DML_BATCH_NORMALIZATION_TRAINING_GRAD_OPERATOR_DESC training = {
      &input, &output, &one, &one, &one, &output, &one, &one, 0.25f};
  CreateOperator(DML_OPERATOR_BATCH_NORMALIZATION_TRAINING_GRAD, &training);
}

void Refused(DML_OPERATOR_TYPE type, const void* desc) {
  try {
    CreateOperator(type, desc);
    std::puts("accepted");
  } catch (const std::invalid_argument& error) {
    std::puts(error.what());
  }
}

// What only C can get wrong: null pointers, numbers outside an enumeration, an activation that
// names itself, counts without arrays.
void Refusals() {
  Tensor input(kFloat, {1, 1, 4, 4});
  DML_MAX_POOLING_OPERATOR_DESC pooling = {};
  Refused(DML_OPERATOR_TYPE(999), &pooling);
  Refused(DML_OPERATOR_ACTIVATION_RELU, &pooling);
  Refused(DML_OPERATOR_MAX_POOLING, nullptr);
  Refused(DML_OPERATOR_MAX_POOLING, &pooling);
  pooling.InputTensor = pooling.OutputTensor = &input;
  pooling.DimensionCount = 0xffffffff;
  Refused(DML_OPERATOR_MAX_POOLING, &pooling);
  pooling.DimensionCount = 2;
  Refused(DML_OPERATOR_MAX_POOLING, &pooling);
  input.bufferDesc.DataType = DML_TENSOR_DATA_TYPE(-1);
  Refused(DML_OPERATOR_MAX_POOLING, &pooling);
  input.bufferDesc.DataType = kFloat;
  input.bufferDesc.DimensionCount = 0xffffffff;
  Refused(DML_OPERATOR_MAX_POOLING, &pooling);
  input.bufferDesc.DimensionCount = 4;
  input.bufferDesc.Sizes = nullptr;
  Refused(DML_OPERATOR_MAX_POOLING, &pooling);
  input.bufferDesc.Sizes = input.sizes.data();
  input.tensorDesc.Desc = nullptr;
  Refused(DML_OPERATOR_MAX_POOLING, &pooling);
  input.tensorDesc.Desc = &input.bufferDesc;

  DML_MEAN_VARIANCE_NORMALIZATION_OPERATOR_DESC mvn = {};
  mvn.InputTensor = mvn.OutputTensor = &input;
  const DML_OPERATOR_DESC itself = {DML_OPERATOR_MEAN_VARIANCE_NORMALIZATION, &mvn};
  mvn.FusedActivation = &itself;
  Refused(DML_OPERATOR_MEAN_VARIANCE_NORMALIZATION, &mvn);
  const DML_OPERATOR_DESC empty = {DML_OPERATOR_ACTIVATION_ELU, nullptr};
  mvn.FusedActivation = &empty;
  Refused(DML_OPERATOR_MEAN_VARIANCE_NORMALIZATION, &mvn);

  const UINT pads[] = {0, 0, 0, 0};
  DML_PADDING1_OPERATOR_DESC padding = {};
  padding.InputTensor = padding.OutputTensor = &input;
  padding.PaddingMode = DML_PADDING_MODE(7);
  padding.DimensionCount = 4;
  padding.StartPadding = padding.EndPadding = pads;
  Refused(DML_OPERATOR_PADDING1, &padding);
  padding.PaddingMode = DML_PADDING_MODE_EDGE;
  padding.PaddingValueDataType = DML_TENSOR_DATA_TYPE(99);
  Refused(DML_OPERATOR_PADDING1, &padding);
}

}  // namespace

int main() {
  MaxPooling();
  AveragePooling();
  LpPooling();
  Padding();
  MeanVarianceNormalization();
  MaxUnpooling();
  BatchNormalization();
  std::puts("refused:");
  Refusals();
}
