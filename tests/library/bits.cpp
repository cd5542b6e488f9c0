// Every version of every operator on made-up numbers: the bytes of all outputs on standard output.
#include <cudml/cudml.hpp>

#include <cstdio>
#include <cstring>

using cudml::Tensor;
using Bytes = std::vector<unsigned char>;

namespace {

int cases = 0;

constexpr auto kFloat = DML_TENSOR_DATA_TYPE_FLOAT32, kHalf = DML_TENSOR_DATA_TYPE_FLOAT16;
const UINT kStrides[] = {2, 1}, kWindow[] = {3, 2}, kStart[] = {1, 0}, kEnd[] = {0, 1},
           kDilations[] = {1, 3}, kAxes[] = {1, 3}, kBefore[] = {0, 1, 2, 9},
           kAfter[] = {1, 0, 3, 8};

/// Numbers of an input that depend on the case, the input and the element; test_bits.py has the
/// same. Floats are small multiples of 1/64, halves any of less than 2.
Bytes numbers(const cudml_tensor& tensor, UINT input) {
  const UINT item = cudml::size_of(tensor.data_type);
  Bytes bytes(tensor.bytes);
  for (UINT i = 0; i < tensor.bytes / item; ++i) {
    const UINT hash = (UINT(cases) * 7919 + input * 104729 + i) * 2654435761u;
    UINT value = hash >> 24;
    if (tensor.data_type == kHalf) value = (hash >> 18 & 0x3fff) | hash >> 31 << 15;
    if (tensor.data_type == kFloat) {
      const float number = (float(hash >> 20) - 2048) / 64;
      std::memcpy(&value, &number, sizeof value);
    }
    std::memcpy(&bytes[i * item], &value, item);
  }
  return bytes;
}

/// Compiles and executes with a workspace of the caller's.
void run(const cudml::Operator& op) {
  const cudml::Compiled compiled = op.compile();
  const cudml_properties properties = compiled.properties();
  std::vector<Bytes> memory;
  std::vector<const void*> inputs;
  std::vector<void*> outputs;
  cudml_tensor tensor = {};
  tensor.size = sizeof tensor;
  for (UINT i = 0; i < properties.input_count; ++i) {
    cudml::check(cudml_compiled_input(compiled.get(), i, &tensor));
    memory.push_back(numbers(tensor, i));
    inputs.push_back(memory.back().data());
  }
  for (UINT o = 0; o < properties.output_count; ++o) {
    cudml::check(cudml_compiled_output(compiled.get(), o, &tensor));
    memory.emplace_back(tensor.bytes);
    outputs.push_back(memory.back().data());
  }
  std::vector<UINT64> workspace(properties.workspace_bytes / 8 + 1);
  cudml_execution e = {};
  e.size = sizeof e;
  e.inputs = inputs.data();
  e.outputs = outputs.data();
  e.input_count = properties.input_count;
  e.output_count = properties.output_count;
  e.workspace = workspace.data();
  e.workspace_bytes = properties.workspace_bytes;
  cudml::check(cudml_execute(compiled.get(), &e));
  for (size_t m = memory.size() - outputs.size(); m < memory.size(); ++m)
    std::fwrite(memory[m].data(), 1, memory[m].size(), stdout);
  ++cases;
}

template <class Desc>
void run(const Desc& desc) {
  run(cudml::Operator(desc));
}

void pooling() {
  const Tensor x(kFloat, {2, 3, 7, 8}), y(kFloat, {2, 3, 3, 8});
  const Tensor nhwc(kFloat, {2, 3, 7, 8}, {168, 1, 24, 3}), dilated(kFloat, {2, 3, 3, 6});
  const Tensor indices(DML_TENSOR_DATA_TYPE_UINT32, {2, 3, 3, 8});
  const Tensor wide(DML_TENSOR_DATA_TYPE_UINT64, {2, 3, 3, 6}, {54, 1, 18, 3});
  const Tensor bytes(DML_TENSOR_DATA_TYPE_UINT8, {2, 3, 7, 8});
  const Tensor pooled_bytes(DML_TENSOR_DATA_TYPE_UINT8, {2, 3, 3, 6});
  const Tensor halves(kHalf, {2, 3, 7, 8}), pooled_halves(kHalf, {2, 3, 3, 6});
  run(DML_MAX_POOLING_OPERATOR_DESC{x, y, 2, kStrides, kWindow, kStart, kEnd});
  run(DML_MAX_POOLING1_OPERATOR_DESC{nhwc, y, indices, 2, kStrides, kWindow, kStart, kEnd});
  run(DML_MAX_POOLING2_OPERATOR_DESC{x, dilated, wide, 2, kStrides, kWindow, kStart, kEnd,
                                     kDilations});
  run(DML_MAX_POOLING2_OPERATOR_DESC{bytes, pooled_bytes, nullptr, 2, kStrides, kWindow, kStart,
                                     kEnd, kDilations});
  run(DML_MAX_POOLING_GRAD_OPERATOR_DESC{x, dilated, nhwc, 2, kStrides, kWindow, kStart, kEnd,
                                         kDilations});
  run(DML_AVERAGE_POOLING_OPERATOR_DESC{x, y, 2, kStrides, kWindow, kStart, kEnd, TRUE});
  run(DML_AVERAGE_POOLING1_OPERATOR_DESC{halves, pooled_halves, 2, kStrides, kWindow, kStart, kEnd,
                                         kDilations, FALSE});
  run(DML_AVERAGE_POOLING_GRAD_OPERATOR_DESC{y, x, 2, kStrides, kWindow, kStart, kEnd, FALSE});
  run(DML_LP_POOLING_OPERATOR_DESC{x, y, 2, kStrides, kWindow, kStart, kEnd, 3});
  run(DML_LP_POOLING1_OPERATOR_DESC{halves, pooled_halves, 2, kStrides, kWindow, kStart, kEnd,
                                    kDilations, 2});
}

void padding() {
  const Tensor x(kFloat, {2, 3, 4, 5}), y(kFloat, {3, 4, 9, 22});
  const Tensor words(DML_TENSOR_DATA_TYPE_UINT16, {2, 3, 4, 5});
  const Tensor padded(DML_TENSOR_DATA_TYPE_UINT16, {3, 4, 9, 22}, {792, 198, 1, 9});
  for (const DML_PADDING_MODE mode : {DML_PADDING_MODE_CONSTANT, DML_PADDING_MODE_EDGE})
    run(DML_PADDING_OPERATOR_DESC{x, y, mode, 2.5f, 4, kBefore, kAfter});
  DML_SCALAR_UNION value = {};
  value.UInt16 = 777;
  for (const DML_PADDING_MODE mode : {DML_PADDING_MODE_CONSTANT, DML_PADDING_MODE_REFLECTION,
                                      DML_PADDING_MODE_SYMMETRIC, DML_PADDING_MODE_WRAP})
    run(DML_PADDING1_OPERATOR_DESC{words, padded, mode, DML_TENSOR_DATA_TYPE_UINT16, value, 4,
                                   kBefore, kAfter});
}

void normalization() {
  const Tensor x(kFloat, {2, 3, 4, 5}), channels(kFloat, {1, 3, 1, 1});
  const Tensor rows(kFloat, {1, 1, 4, 1}), halves(kHalf, {2, 3, 4, 5});
  const DML_ACTIVATION_SCALED_TANH_OPERATOR_DESC tanh = {nullptr, nullptr, 1.5f, 0.75f};
  const DML_OPERATOR_DESC fused = {DML_OPERATOR_ACTIVATION_SCALED_TANH, &tanh};
  run(DML_MEAN_VARIANCE_NORMALIZATION_OPERATOR_DESC{x, channels, channels, x, TRUE, TRUE, 1e-3f,
                                                    &fused});
  run(DML_MEAN_VARIANCE_NORMALIZATION1_OPERATOR_DESC{halves, nullptr, nullptr, halves, 2, kAxes,
                                                     FALSE, 1e-3f, nullptr});
  run(DML_MEAN_VARIANCE_NORMALIZATION2_OPERATOR_DESC{x, nullptr, rows, x, 2, kAxes, FALSE, TRUE,
                                                     1e-2f, &fused});
}

}  // namespace

int main() {
  pooling();
  padding();
  normalization();
  const cudml::Tensor one(kFloat, {1, 1, 1, 1}), shared = one;
  try {
    cudml::Operator(
        DML_PADDING_OPERATOR_DESC{shared, one, DML_PADDING_MODE_EDGE, 0, 3, kBefore, kAfter});
  } catch (const cudml::Error& error) {
    std::fprintf(stderr, "%d %s\n", int(error.status()), error.what());
  }
}
