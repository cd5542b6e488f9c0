// cudml's C interface: an operator from a DirectML descriptor, compiled for a device, executed on
// the caller's memory. C11 and C++17. Functions and structs keep their meaning as long as the
// library is libcudml.so.0; a struct grows at its end only, and its first field says its size.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "DirectML.h"

#define CUDML_VERSION "0.1.0"

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define CUDML_API __attribute__((visibility("default")))
#else
#define CUDML_API
#endif

/// What a function gives. After anything but success cudml_last_error says more.
typedef enum cudml_status {
  CUDML_SUCCESS = 0,
  CUDML_INVALID_ARGUMENT = 1,  // a value out of range, a null pointer, a struct of a wrong size
  CUDML_INVALID_TYPE = 2,      // an element type that the operator does not take
  CUDML_OUT_OF_MEMORY = 3,     // of the host
  CUDML_CUDA_ERROR = 4,        // a failed CUDA call, or a device that is not there
  CUDML_INTERNAL_ERROR = 5     // a defect of the library
} cudml_status;

/// A descriptor that has passed every check. May be used from any number of threads.
typedef struct cudml_operator cudml_operator;

/// An operator planned for a device. May be used from any number of threads.
typedef struct cudml_compiled cudml_compiled;

/// CUDML_VERSION of the library that runs; constant.
CUDML_API const char* cudml_version(void);

/// The message of this thread's latest failure: "<operator>: <field> is <value>; <what is
/// permitted>". Empty where none has failed; holds until the thread's next failure.
CUDML_API const char* cudml_last_error(void);

/// The cudaError_t of this thread's latest failure, 0 where it was none of a CUDA call.
CUDML_API int cudml_last_cuda_error(void);

/// Checks a descriptor of any version at a feature level. Nothing of the descriptor is kept.
CUDML_API cudml_status cudml_operator_create(const DML_OPERATOR_DESC* desc, DML_FEATURE_LEVEL level,
                                             cudml_operator** op);

/// Null is permitted. What was compiled from the operator stays.
CUDML_API void cudml_operator_destroy(cudml_operator* op);

/// The operator in words, a line for each tensor. The text is the thread's until its next call of
/// this function or of cudml_compiled_explain.
CUDML_API cudml_status cudml_operator_describe(const cudml_operator* op, const char** text);

/// Plans an operator. `device` is "cpu", "cuda" (the current device) or "cuda:<number>".
CUDML_API cudml_status cudml_operator_compile(const cudml_operator* op, const char* device,
                                              cudml_compiled** compiled);

/// Null is permitted. Work that is enqueued on a GPU must have ended.
CUDML_API void cudml_compiled_destroy(cudml_compiled* compiled);

/// What an execution needs.
typedef struct cudml_properties {
  size_t size;                   // sizeof(cudml_properties), set by the caller
  uint64_t workspace_bytes;      // scratch memory; 0 for most operators
  uint64_t persistent_bytes;     // kept between executions; 0 for every operator of this version
  uint32_t workspace_alignment;  // its address is a multiple of this
  uint32_t input_count;
  uint32_t output_count;
  int32_t device;  // a CUDA device's number, or -1 for the CPU
} cudml_properties;

CUDML_API cudml_status cudml_compiled_properties(const cudml_compiled* compiled,
                                                 cudml_properties* properties);

/// A tensor that an execution is given memory for.
typedef struct cudml_tensor {
  size_t size;        // sizeof(cudml_tensor), set by the caller
  const char* field;  // "InputTensor", "ScaleTensor", ...; constant
  DML_TENSOR_DATA_TYPE data_type;
  uint32_t dimension_count;
  uint64_t sizes[8];    // outermost dimension first
  uint64_t strides[8];  // in elements
  uint64_t bytes;       // from the first element to the end of the last
} cudml_tensor;

/// Inputs and outputs in the order of the descriptor's fields, without optional ones that are
/// absent there.
CUDML_API cudml_status cudml_compiled_input(const cudml_compiled* compiled, uint32_t index,
                                            cudml_tensor* tensor);
CUDML_API cudml_status cudml_compiled_output(const cudml_compiled* compiled, uint32_t index,
                                             cudml_tensor* tensor);

/// Which kernel runs, why, and how many bytes it must move, for well aligned memory. The text is
/// the thread's until its next call of this function or of cudml_operator_describe.
CUDML_API cudml_status cudml_compiled_explain(const cudml_compiled* compiled, const char** text);

/// The memory of one execution, on the device that the operator is compiled for. Pointers address
/// first elements and are multiples of an element's size.
typedef struct cudml_execution {
  size_t size;  // sizeof(cudml_execution), set by the caller
  const void* const* inputs;
  void* const* outputs;
  uint32_t input_count;
  uint32_t output_count;
  void* workspace;            // null: the operator's own, which executions use in turn
  uint64_t workspace_bytes;   // of `workspace`
  void* persistent;           // null in this version
  uint64_t persistent_bytes;  // 0 in this version
  void* stream;               // cudaStream_t, null for the legacy default stream; null on the CPU
} cudml_execution;

/// Runs the operator. On the CPU the outputs are complete on return; on a GPU the work is enqueued
/// on the stream and nothing waits. Outputs share no memory with other tensors; the output of a
/// normalization may be its input. A refused execution writes nothing.
CUDML_API cudml_status cudml_execute(cudml_compiled* compiled, const cudml_execution* execution);

/// Threads of a large execution on the CPU: what was set, else CUDML_NUM_THREADS, else
/// OMP_NUM_THREADS, else the CPUs that the process may use.
CUDML_API cudml_status cudml_get_num_threads(uint32_t* threads);
CUDML_API cudml_status cudml_set_num_threads(uint32_t threads);

#ifdef __cplusplus
}
#endif
