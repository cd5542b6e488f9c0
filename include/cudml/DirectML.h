// DirectML's descriptor structs for pooling, padding and mean-variance normalization, and in C++
// its interfaces: same names, field order, types and enum values, so that code written for DirectML
// compiles here. C11 and C++17.
#pragma once

#include "DirectMLTypes.h"

// Enumerations have the size of an INT in C and in C++.
#ifdef __cplusplus
#define CUDML_INT_ENUM : INT
#else
#define CUDML_INT_ENUM
#endif

#define DML_TENSOR_DIMENSION_COUNT_MAX 5u   // before feature level 3_0
#define DML_TENSOR_DIMENSION_COUNT_MAX1 8u  // from 3_0 on
#define DML_MINIMUM_BUFFER_TENSOR_ALIGNMENT 16u
#define DML_TEMPORARY_BUFFER_ALIGNMENT 256u
#define DML_PERSISTENT_BUFFER_ALIGNMENT 256u

typedef enum DML_FEATURE_LEVEL CUDML_INT_ENUM {
  DML_FEATURE_LEVEL_1_0 = 0x1000,
  DML_FEATURE_LEVEL_2_0 = 0x2000,
  DML_FEATURE_LEVEL_2_1 = 0x2100,
  DML_FEATURE_LEVEL_3_0 = 0x3000,
  DML_FEATURE_LEVEL_3_1 = 0x3100,
  DML_FEATURE_LEVEL_4_0 = 0x4000,
  DML_FEATURE_LEVEL_4_1 = 0x4100,
  DML_FEATURE_LEVEL_5_0 = 0x5000,
  DML_FEATURE_LEVEL_5_1 = 0x5100,
  DML_FEATURE_LEVEL_5_2 = 0x5200,
  DML_FEATURE_LEVEL_6_0 = 0x6000,
  DML_FEATURE_LEVEL_6_1 = 0x6100,
  DML_FEATURE_LEVEL_6_2 = 0x6200,
  DML_FEATURE_LEVEL_6_3 = 0x6300,
  DML_FEATURE_LEVEL_6_4 = 0x6400,
} DML_FEATURE_LEVEL;

typedef enum DML_TENSOR_DATA_TYPE CUDML_INT_ENUM {
  DML_TENSOR_DATA_TYPE_UNKNOWN = 0,
  DML_TENSOR_DATA_TYPE_FLOAT32 = 1,
  DML_TENSOR_DATA_TYPE_FLOAT16 = 2,
  DML_TENSOR_DATA_TYPE_UINT32 = 3,
  DML_TENSOR_DATA_TYPE_UINT16 = 4,
  DML_TENSOR_DATA_TYPE_UINT8 = 5,
  DML_TENSOR_DATA_TYPE_INT32 = 6,
  DML_TENSOR_DATA_TYPE_INT16 = 7,
  DML_TENSOR_DATA_TYPE_INT8 = 8,
  DML_TENSOR_DATA_TYPE_FLOAT64 = 9,
  DML_TENSOR_DATA_TYPE_UINT64 = 10,
  DML_TENSOR_DATA_TYPE_INT64 = 11,
  DML_TENSOR_DATA_TYPE_UINT4 = 12,
  DML_TENSOR_DATA_TYPE_INT4 = 13,
} DML_TENSOR_DATA_TYPE;

typedef enum DML_TENSOR_TYPE CUDML_INT_ENUM {
  DML_TENSOR_TYPE_INVALID = 0,
  DML_TENSOR_TYPE_BUFFER = 1,
} DML_TENSOR_TYPE;

typedef enum DML_TENSOR_FLAGS CUDML_INT_ENUM {
  DML_TENSOR_FLAG_NONE = 0x0,
  DML_TENSOR_FLAG_OWNED_BY_DML = 0x1,
} DML_TENSOR_FLAGS;

DEFINE_ENUM_FLAG_OPERATORS(DML_TENSOR_FLAGS)

typedef enum DML_PADDING_MODE CUDML_INT_ENUM {
  DML_PADDING_MODE_CONSTANT = 0,
  DML_PADDING_MODE_EDGE = 1,
  DML_PADDING_MODE_REFLECTION = 2,
  DML_PADDING_MODE_SYMMETRIC = 3,
  DML_PADDING_MODE_WRAP = 4,
} DML_PADDING_MODE;

typedef enum DML_OPERATOR_TYPE CUDML_INT_ENUM {
  DML_OPERATOR_INVALID = 0,
  DML_OPERATOR_MAX_POOLING = 58,
  DML_OPERATOR_MAX_POOLING1 = 91,
  DML_OPERATOR_MAX_POOLING2 = 110,
  DML_OPERATOR_MAX_POOLING_GRAD = 131,
  DML_OPERATOR_AVERAGE_POOLING = 56,
  DML_OPERATOR_AVERAGE_POOLING1 = 166,
  DML_OPERATOR_AVERAGE_POOLING_GRAD = 130,
  DML_OPERATOR_LP_POOLING = 57,
  DML_OPERATOR_LP_POOLING1 = 165,
  DML_OPERATOR_PADDING = 64,
  DML_OPERATOR_PADDING1 = 155,
  DML_OPERATOR_MEAN_VARIANCE_NORMALIZATION = 73,
  DML_OPERATOR_MEAN_VARIANCE_NORMALIZATION1 = 115,
  DML_OPERATOR_MEAN_VARIANCE_NORMALIZATION2 = 171,
  DML_OPERATOR_MAX_UNPOOLING = 92,
  DML_OPERATOR_BATCH_NORMALIZATION = 72,
  DML_OPERATOR_BATCH_NORMALIZATION_GRAD = 146,
  DML_OPERATOR_BATCH_NORMALIZATION_TRAINING_GRAD = 152,
  DML_OPERATOR_ACTIVATION_CELU = 128,
  DML_OPERATOR_ACTIVATION_ELU = 35,
  DML_OPERATOR_ACTIVATION_GELU = 157,
  DML_OPERATOR_ACTIVATION_HARD_SIGMOID = 37,
  DML_OPERATOR_ACTIVATION_IDENTITY = 38,
  DML_OPERATOR_ACTIVATION_LEAKY_RELU = 39,
  DML_OPERATOR_ACTIVATION_LINEAR = 40,
  DML_OPERATOR_ACTIVATION_PARAMETRIC_SOFTPLUS = 43,
  DML_OPERATOR_ACTIVATION_RELU = 44,
  DML_OPERATOR_ACTIVATION_SCALED_ELU = 45,
  DML_OPERATOR_ACTIVATION_SCALED_TANH = 46,
  DML_OPERATOR_ACTIVATION_SHRINK = 90,
  DML_OPERATOR_ACTIVATION_SIGMOID = 47,
  DML_OPERATOR_ACTIVATION_SOFTPLUS = 49,
  DML_OPERATOR_ACTIVATION_SOFTSIGN = 50,
  DML_OPERATOR_ACTIVATION_TANH = 51,
  DML_OPERATOR_ACTIVATION_THRESHOLDED_RELU = 52,
  // Known by name only, to be refused by name: DirectML fuses none of these into a normalization.
  DML_OPERATOR_ACTIVATION_HARDMAX = 36,
  DML_OPERATOR_ACTIVATION_HARDMAX1 = 160,
  DML_OPERATOR_ACTIVATION_HARD_SWISH = 168,
  DML_OPERATOR_ACTIVATION_LOG_SOFTMAX = 41,
  DML_OPERATOR_ACTIVATION_LOG_SOFTMAX1 = 159,
  DML_OPERATOR_ACTIVATION_PARAMETERIZED_RELU = 42,
  DML_OPERATOR_ACTIVATION_SOFTMAX = 48,
  DML_OPERATOR_ACTIVATION_SOFTMAX1 = 158,
  DML_OPERATOR_ACTIVATION_SWISH = 167,
  DML_OPERATOR_ELEMENT_WISE_CLIP = 8,
} DML_OPERATOR_TYPE;

/// A tensor in a buffer. Sizes and Strides count elements, outermost dimension first; null Strides
/// mean packed row-major.
typedef struct DML_BUFFER_TENSOR_DESC {
  DML_TENSOR_DATA_TYPE DataType;
  DML_TENSOR_FLAGS Flags;
  UINT DimensionCount;
  const UINT* Sizes;
  const UINT* Strides;
  UINT64 TotalTensorSizeInBytes;
  UINT GuaranteedBaseOffsetAlignment;
} DML_BUFFER_TENSOR_DESC;

/// Points to the struct that Type names. Optional tensors are absent where the pointer to this
/// struct is null or Type is INVALID.
typedef struct DML_TENSOR_DESC {
  DML_TENSOR_TYPE Type;
  const void* Desc;
} DML_TENSOR_DESC;

/// Points to the DML_<name>_OPERATOR_DESC that Type names.
typedef struct DML_OPERATOR_DESC {
  DML_OPERATOR_TYPE Type;
  const void* Desc;
} DML_OPERATOR_DESC;

/// One number of any element type; FLOAT16 is stored as its sixteen raw bits.
typedef union DML_SCALAR_UNION {
  BYTE Bytes[8];
  INT8 Int8;
  UINT8 UInt8;
  INT16 Int16;
  UINT16 UInt16;
  INT32 Int32;
  UINT32 UInt32;
  INT64 Int64;
  UINT64 UInt64;
  FLOAT Float32;
  DOUBLE Float64;
} DML_SCALAR_UNION;

typedef struct DML_SCALE_BIAS {
  FLOAT Scale;
  FLOAT Bias;
} DML_SCALE_BIAS;

// Pooling. Geometry arrays have one entry per spatial dimension: {H,W}, or {D,H,W}.

typedef struct DML_MAX_POOLING_OPERATOR_DESC {
  const DML_TENSOR_DESC* InputTensor;
  const DML_TENSOR_DESC* OutputTensor;
  UINT DimensionCount;
  const UINT* Strides;
  const UINT* WindowSize;
  const UINT* StartPadding;
  const UINT* EndPadding;
} DML_MAX_POOLING_OPERATOR_DESC;

typedef struct DML_MAX_POOLING1_OPERATOR_DESC {
  const DML_TENSOR_DESC* InputTensor;
  const DML_TENSOR_DESC* OutputTensor;
  const DML_TENSOR_DESC* OutputIndicesTensor;  // optional
  UINT DimensionCount;
  const UINT* Strides;
  const UINT* WindowSize;
  const UINT* StartPadding;
  const UINT* EndPadding;
} DML_MAX_POOLING1_OPERATOR_DESC;

typedef struct DML_MAX_POOLING2_OPERATOR_DESC {
  const DML_TENSOR_DESC* InputTensor;
  const DML_TENSOR_DESC* OutputTensor;
  const DML_TENSOR_DESC* OutputIndicesTensor;  // optional
  UINT DimensionCount;
  const UINT* Strides;
  const UINT* WindowSize;
  const UINT* StartPadding;
  const UINT* EndPadding;
  const UINT* Dilations;
} DML_MAX_POOLING2_OPERATOR_DESC;

typedef struct DML_MAX_POOLING_GRAD_OPERATOR_DESC {
  const DML_TENSOR_DESC* InputTensor;
  const DML_TENSOR_DESC* InputGradientTensor;
  const DML_TENSOR_DESC* OutputGradientTensor;
  UINT DimensionCount;
  const UINT* Strides;
  const UINT* WindowSize;
  const UINT* StartPadding;
  const UINT* EndPadding;
  const UINT* Dilations;
} DML_MAX_POOLING_GRAD_OPERATOR_DESC;

/// IndicesTensor has InputTensor's sizes and counts over the whole output.
typedef struct DML_MAX_UNPOOLING_OPERATOR_DESC {
  const DML_TENSOR_DESC* InputTensor;
  const DML_TENSOR_DESC* IndicesTensor;
  const DML_TENSOR_DESC* OutputTensor;
} DML_MAX_UNPOOLING_OPERATOR_DESC;

typedef struct DML_AVERAGE_POOLING_OPERATOR_DESC {
  const DML_TENSOR_DESC* InputTensor;
  const DML_TENSOR_DESC* OutputTensor;
  UINT DimensionCount;
  const UINT* Strides;
  const UINT* WindowSize;
  const UINT* StartPadding;
  const UINT* EndPadding;
  BOOL IncludePadding;
} DML_AVERAGE_POOLING_OPERATOR_DESC;

typedef struct DML_AVERAGE_POOLING1_OPERATOR_DESC {
  const DML_TENSOR_DESC* InputTensor;
  const DML_TENSOR_DESC* OutputTensor;
  UINT DimensionCount;
  const UINT* Strides;
  const UINT* WindowSize;
  const UINT* StartPadding;
  const UINT* EndPadding;
  const UINT* Dilations;
  BOOL IncludePadding;
} DML_AVERAGE_POOLING1_OPERATOR_DESC;

typedef struct DML_AVERAGE_POOLING_GRAD_OPERATOR_DESC {
  const DML_TENSOR_DESC* InputGradientTensor;
  const DML_TENSOR_DESC* OutputGradientTensor;
  UINT DimensionCount;
  const UINT* Strides;
  const UINT* WindowSize;
  const UINT* StartPadding;
  const UINT* EndPadding;
  BOOL IncludePadding;
} DML_AVERAGE_POOLING_GRAD_OPERATOR_DESC;

typedef struct DML_LP_POOLING_OPERATOR_DESC {
  const DML_TENSOR_DESC* InputTensor;
  const DML_TENSOR_DESC* OutputTensor;
  UINT DimensionCount;
  const UINT* Strides;
  const UINT* WindowSize;
  const UINT* StartPadding;
  const UINT* EndPadding;
  UINT P;
} DML_LP_POOLING_OPERATOR_DESC;

typedef struct DML_LP_POOLING1_OPERATOR_DESC {
  const DML_TENSOR_DESC* InputTensor;
  const DML_TENSOR_DESC* OutputTensor;
  UINT DimensionCount;
  const UINT* Strides;
  const UINT* WindowSize;
  const UINT* StartPadding;
  const UINT* EndPadding;
  const UINT* Dilations;
  UINT P;
} DML_LP_POOLING1_OPERATOR_DESC;

// Padding. StartPadding and EndPadding have one entry per dimension of the tensors.

typedef struct DML_PADDING_OPERATOR_DESC {
  const DML_TENSOR_DESC* InputTensor;
  const DML_TENSOR_DESC* OutputTensor;
  DML_PADDING_MODE PaddingMode;
  FLOAT PaddingValue;
  UINT DimensionCount;
  const UINT* StartPadding;
  const UINT* EndPadding;
} DML_PADDING_OPERATOR_DESC;

typedef struct DML_PADDING1_OPERATOR_DESC {
  const DML_TENSOR_DESC* InputTensor;
  const DML_TENSOR_DESC* OutputTensor;
  DML_PADDING_MODE PaddingMode;
  DML_TENSOR_DATA_TYPE PaddingValueDataType;
  DML_SCALAR_UNION PaddingValue;
  UINT DimensionCount;
  const UINT* StartPadding;
  const UINT* EndPadding;
} DML_PADDING1_OPERATOR_DESC;

// Mean-variance normalization. Scale, bias and activation are optional.

typedef struct DML_MEAN_VARIANCE_NORMALIZATION_OPERATOR_DESC {
  const DML_TENSOR_DESC* InputTensor;
  const DML_TENSOR_DESC* ScaleTensor;
  const DML_TENSOR_DESC* BiasTensor;
  const DML_TENSOR_DESC* OutputTensor;
  BOOL CrossChannel;
  BOOL NormalizeVariance;
  FLOAT Epsilon;
  const DML_OPERATOR_DESC* FusedActivation;
} DML_MEAN_VARIANCE_NORMALIZATION_OPERATOR_DESC;

typedef struct DML_MEAN_VARIANCE_NORMALIZATION1_OPERATOR_DESC {
  const DML_TENSOR_DESC* InputTensor;
  const DML_TENSOR_DESC* ScaleTensor;
  const DML_TENSOR_DESC* BiasTensor;
  const DML_TENSOR_DESC* OutputTensor;
  UINT AxisCount;
  const UINT* Axes;
  BOOL NormalizeVariance;
  FLOAT Epsilon;
  const DML_OPERATOR_DESC* FusedActivation;
} DML_MEAN_VARIANCE_NORMALIZATION1_OPERATOR_DESC;

typedef struct DML_MEAN_VARIANCE_NORMALIZATION2_OPERATOR_DESC {
  const DML_TENSOR_DESC* InputTensor;
  const DML_TENSOR_DESC* ScaleTensor;
  const DML_TENSOR_DESC* BiasTensor;
  const DML_TENSOR_DESC* OutputTensor;
  UINT AxisCount;
  const UINT* Axes;
  BOOL UseMean;
  BOOL UseVariance;
  FLOAT Epsilon;
  const DML_OPERATOR_DESC* FusedActivation;
} DML_MEAN_VARIANCE_NORMALIZATION2_OPERATOR_DESC;

// Batch normalization with given statistics. Each size of mean, variance, scale and bias is 1 or
// InputTensor's; of the gradients all but the first two tensors and the first output are alike.

typedef struct DML_BATCH_NORMALIZATION_OPERATOR_DESC {
  const DML_TENSOR_DESC* InputTensor;
  const DML_TENSOR_DESC* MeanTensor;
  const DML_TENSOR_DESC* VarianceTensor;
  const DML_TENSOR_DESC* ScaleTensor;
  const DML_TENSOR_DESC* BiasTensor;
  const DML_TENSOR_DESC* OutputTensor;
  BOOL Spatial;  // without effect from feature level 4_0 on
  FLOAT Epsilon;
  const DML_OPERATOR_DESC* FusedActivation;  // optional
} DML_BATCH_NORMALIZATION_OPERATOR_DESC;

/// Mean and variance are constants.
typedef struct DML_BATCH_NORMALIZATION_GRAD_OPERATOR_DESC {
  const DML_TENSOR_DESC* InputTensor;
  const DML_TENSOR_DESC* InputGradientTensor;
  const DML_TENSOR_DESC* MeanTensor;
  const DML_TENSOR_DESC* VarianceTensor;
  const DML_TENSOR_DESC* ScaleTensor;
  const DML_TENSOR_DESC* OutputGradientTensor;
  const DML_TENSOR_DESC* OutputScaleGradientTensor;
  const DML_TENSOR_DESC* OutputBiasGradientTensor;
  FLOAT Epsilon;
} DML_BATCH_NORMALIZATION_GRAD_OPERATOR_DESC;

/// Mean and variance are those of the input, over the dimensions in which they have size 1.
typedef struct DML_BATCH_NORMALIZATION_TRAINING_GRAD_OPERATOR_DESC {
  const DML_TENSOR_DESC* InputTensor;
  const DML_TENSOR_DESC* InputGradientTensor;
  const DML_TENSOR_DESC* MeanTensor;
  const DML_TENSOR_DESC* VarianceTensor;
  const DML_TENSOR_DESC* ScaleTensor;
  const DML_TENSOR_DESC* OutputGradientTensor;
  const DML_TENSOR_DESC* OutputScaleGradientTensor;
  const DML_TENSOR_DESC* OutputBiasGradientTensor;
  FLOAT Epsilon;
} DML_BATCH_NORMALIZATION_TRAINING_GRAD_OPERATOR_DESC;

#undef CUDML_INT_ENUM

#include "DirectMLActivations.h"
#ifdef __cplusplus
#include "DirectMLInterfaces.h"
#endif
