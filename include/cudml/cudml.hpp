// cudml's C++ interface, C++17: cudml.h with owners, exceptions and containers. All of it is
// inline, so that a program and the library may come from different compilers.
#pragma once

#include <initializer_list>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "cudml.h"

namespace cudml {

/// A call of the library that failed; what() is its message.
class Error : public std::runtime_error {
 public:
  Error(cudml_status status, const char* message, int cuda_error)
      : std::runtime_error(message), status_(status), cuda_error_(cuda_error) {}

  cudml_status status() const { return status_; }
  int cuda_error() const { return cuda_error_; }  // cudaError_t, 0 where it was no CUDA call

 private:
  cudml_status status_;
  int cuda_error_;
};

/// Throws Error for every status but success.
inline void check(cudml_status status) {
  if (status != CUDML_SUCCESS) throw Error(status, cudml_last_error(), cudml_last_cuda_error());
}

/// Bytes of an element; 0 of a type that has no whole ones.
constexpr UINT size_of(DML_TENSOR_DATA_TYPE type) {
  switch (type) {
    case DML_TENSOR_DATA_TYPE_FLOAT64:
    case DML_TENSOR_DATA_TYPE_UINT64:
    case DML_TENSOR_DATA_TYPE_INT64: return 8;
    case DML_TENSOR_DATA_TYPE_FLOAT32:
    case DML_TENSOR_DATA_TYPE_UINT32:
    case DML_TENSOR_DATA_TYPE_INT32: return 4;
    case DML_TENSOR_DATA_TYPE_FLOAT16:
    case DML_TENSOR_DATA_TYPE_UINT16:
    case DML_TENSOR_DATA_TYPE_INT16: return 2;
    case DML_TENSOR_DATA_TYPE_UINT8:
    case DML_TENSOR_DATA_TYPE_INT8: return 1;
    default: return 0;
  }
}

/// A tensor descriptor that owns its arrays; copies share them. Where a descriptor of an operator
/// takes a `const DML_TENSOR_DESC*`, it takes a Tensor that outlives it.
class Tensor {
 public:
  /// Without strides it is packed, the last dimension innermost.
  explicit Tensor(DML_TENSOR_DATA_TYPE type, std::vector<UINT> sizes,
                  std::vector<UINT> strides = {}, DML_TENSOR_FLAGS flags = DML_TENSOR_FLAG_NONE)
      : state_(std::make_shared<State>(type, std::move(sizes), std::move(strides), flags)) {}

  operator const DML_TENSOR_DESC*() const { return &state_->desc; }
  const DML_TENSOR_DESC* desc() const { return &state_->desc; }
  const std::vector<UINT>& sizes() const { return state_->sizes; }

  /// From the first element to the end of the last, rounded up to 4 as DirectML counts.
  UINT64 bytes() const { return state_->buffer.TotalTensorSizeInBytes; }

 private:
  struct State {
    State(DML_TENSOR_DATA_TYPE type, std::vector<UINT> sizes_of, std::vector<UINT> strides_of,
          DML_TENSOR_FLAGS flags)
        : sizes(std::move(sizes_of)), strides(std::move(strides_of)) {
      if (!strides.empty() && strides.size() != sizes.size())
        throw std::invalid_argument("cudml::Tensor: there must be as many strides as sizes");
      UINT64 elements = 1;  // up to and including the last one
      for (size_t d = 0; d < sizes.size(); ++d)
        elements =
            strides.empty() ? elements * sizes[d] : elements + (sizes[d] - UINT64{1}) * strides[d];
      buffer = {type,
                flags,
                UINT(sizes.size()),
                sizes.data(),
                strides.empty() ? nullptr : strides.data(),
                (elements * size_of(type) + 3) / 4 * 4,
                0};
      desc = {DML_TENSOR_TYPE_BUFFER, &buffer};
    }
    State(const State&) = delete;
    State& operator=(const State&) = delete;

    const std::vector<UINT> sizes, strides;
    DML_BUFFER_TENSOR_DESC buffer;
    DML_TENSOR_DESC desc;
  };

  std::shared_ptr<const State> state_;
};

/// The type that goes with a struct: type_of<DML_MAX_POOLING2_OPERATOR_DESC>.
template <class Desc>
struct TypeOf;
#define CUDML_TYPE_OF(name)                                         \
  template <>                                                       \
  struct TypeOf<DML_##name##_OPERATOR_DESC> {                       \
    static constexpr DML_OPERATOR_TYPE value = DML_OPERATOR_##name; \
  };
CUDML_TYPE_OF(MAX_POOLING)
CUDML_TYPE_OF(MAX_POOLING1)
CUDML_TYPE_OF(MAX_POOLING2)
CUDML_TYPE_OF(MAX_POOLING_GRAD)
CUDML_TYPE_OF(AVERAGE_POOLING)
CUDML_TYPE_OF(AVERAGE_POOLING1)
CUDML_TYPE_OF(AVERAGE_POOLING_GRAD)
CUDML_TYPE_OF(LP_POOLING)
CUDML_TYPE_OF(LP_POOLING1)
CUDML_TYPE_OF(PADDING)
CUDML_TYPE_OF(PADDING1)
CUDML_TYPE_OF(MEAN_VARIANCE_NORMALIZATION)
CUDML_TYPE_OF(MEAN_VARIANCE_NORMALIZATION1)
CUDML_TYPE_OF(MEAN_VARIANCE_NORMALIZATION2)
CUDML_TYPE_OF(MAX_UNPOOLING)
CUDML_TYPE_OF(BATCH_NORMALIZATION)
CUDML_TYPE_OF(BATCH_NORMALIZATION_GRAD)
CUDML_TYPE_OF(BATCH_NORMALIZATION_TRAINING_GRAD)
#undef CUDML_TYPE_OF

/// The memory of an execution beside its tensors.
struct Memory {
  void* workspace = nullptr;  // null: the operator's own
  UINT64 workspace_bytes = 0;
  void* stream = nullptr;  // cudaStream_t
};

/// An operator planned for a device. May be used from any number of threads.
class Compiled {
 public:
  UINT64 workspace_bytes() const { return properties().workspace_bytes; }
  UINT64 persistent_bytes() const { return properties().persistent_bytes; }

  cudml_properties properties() const {
    cudml_properties found = {};
    found.size = sizeof found;
    check(cudml_compiled_properties(handle_.get(), &found));
    return found;
  }

  /// Which kernel runs, why, and how many bytes it must move.
  std::string explain() const {
    const char* text = nullptr;
    check(cudml_compiled_explain(handle_.get(), &text));
    return text;
  }

  /// First elements, in the order of the descriptor's fields without those that are absent. On a
  /// GPU the work is enqueued on the stream.
  void execute(std::initializer_list<const void*> inputs, std::initializer_list<void*> outputs,
               const Memory& memory = {}) const {
    cudml_execution e = {};
    e.size = sizeof e;
    e.inputs = inputs.begin();
    e.outputs = outputs.begin();
    e.input_count = uint32_t(inputs.size());
    e.output_count = uint32_t(outputs.size());
    e.workspace = memory.workspace;
    e.workspace_bytes = memory.workspace_bytes;
    e.stream = memory.stream;
    check(cudml_execute(handle_.get(), &e));
  }

  cudml_compiled* get() const { return handle_.get(); }

 private:
  friend class Operator;
  explicit Compiled(cudml_compiled* handle) : handle_(handle) {}

  struct Destroy {
    void operator()(cudml_compiled* handle) const { cudml_compiled_destroy(handle); }
  };
  std::unique_ptr<cudml_compiled, Destroy> handle_;
};

/// A descriptor that has passed every check; nothing of it is kept.
class Operator {
 public:
  explicit Operator(const DML_OPERATOR_DESC& desc,
                    DML_FEATURE_LEVEL level = DML_FEATURE_LEVEL_6_4) {
    cudml_operator* created = nullptr;
    check(cudml_operator_create(&desc, level, &created));
    handle_.reset(created);
  }

  /// From a struct such as DML_MAX_POOLING2_OPERATOR_DESC.
  template <class Desc, DML_OPERATOR_TYPE kType = TypeOf<Desc>::value>
  explicit Operator(const Desc& desc, DML_FEATURE_LEVEL level = DML_FEATURE_LEVEL_6_4)
      : Operator(DML_OPERATOR_DESC{kType, &desc}, level) {}

  /// "cpu", "cuda" (the current device) or "cuda:<number>".
  Compiled compile(const std::string& device = "cpu") const {
    cudml_compiled* compiled = nullptr;
    check(cudml_operator_compile(handle_.get(), device.c_str(), &compiled));
    return Compiled(compiled);
  }

  /// In words, a line for each tensor.
  std::string describe() const {
    const char* text = nullptr;
    check(cudml_operator_describe(handle_.get(), &text));
    return text;
  }

  cudml_operator* get() const { return handle_.get(); }

 private:
  struct Destroy {
    void operator()(cudml_operator* handle) const { cudml_operator_destroy(handle); }
  };
  std::unique_ptr<cudml_operator, Destroy> handle_;
};

}  // namespace cudml
