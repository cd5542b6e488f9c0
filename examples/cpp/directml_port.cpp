// Three programs for DirectML after their port; docs/porting.md has them before it, too.
#include <cudml/DirectML.h>
#include <cudml/cudml.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>

// What a program for DirectML has of its own or from Windows' headers.

#define THROW_IF_FAILED(result)                                       \
  do {                                                                \
    if (FAILED(result)) throw std::runtime_error(cudml_last_error()); \
  } while (false)

template <class T, size_t count>
constexpr UINT ARRAYSIZE(const T (&)[count]) {
  return UINT(count);
}

template <class T>
class ComPtr {
 public:
  ComPtr() = default;
  ComPtr(const ComPtr&) = delete;
  ~ComPtr() {
    if (object_) object_->Release();
  }
  T* Get() const { return object_; }
  T** GetAddressOf() { return &object_; }
  T* operator->() const { return object_; }

 private:
  T* object_ = nullptr;
};

struct Tensor {
  Tensor(std::initializer_list<UINT> tensorSizes, DML_TENSOR_FLAGS flags = DML_TENSOR_FLAG_NONE) {
    std::copy(tensorSizes.begin(), tensorSizes.end(), sizes);
    bufferDesc.DataType = DML_TENSOR_DATA_TYPE_FLOAT32;
    bufferDesc.Flags = flags;
    bufferDesc.DimensionCount = UINT(tensorSizes.size());
    bufferDesc.Sizes = sizes;
    bufferDesc.TotalTensorSizeInBytes = sizeof(FLOAT);
    for (UINT size : tensorSizes) bufferDesc.TotalTensorSizeInBytes *= size;
    desc = {DML_TENSOR_TYPE_BUFFER, &bufferDesc};
  }
  Tensor(const Tensor&) = delete;
  UINT64 Bytes() const { return bufferDesc.TotalTensorSizeInBytes; }

  UINT sizes[DML_TENSOR_DIMENSION_COUNT_MAX1] = {};
  DML_BUFFER_TENSOR_DESC bufferDesc = {};
  DML_TENSOR_DESC desc = {};
};

/// Memory of the host in the place of a committed resource; on a GPU it would be cudaMalloc's.
struct Buffer : CUDML_BUFFER {
  explicit Buffer(UINT64 bytes)
      : CUDML_BUFFER{std::aligned_alloc(256, (bytes + 255) / 256 * 256), bytes} {}
  Buffer(const Buffer&) = delete;
  ~Buffer() { std::free(Data); }
  FLOAT* Values() const { return static_cast<FLOAT*>(Data); }
};

void Fill(const Buffer& buffer) {
  for (UINT64 i = 0; i < buffer.SizeInBytes / sizeof(FLOAT); ++i) buffer.Values()[i] = FLOAT(i);
}

// HelloDirectML's steps, one function each.
class Program {
 public:
  Program() {
    const CUDML_DEVICE_DESC place = {CUDML_DEVICE_TYPE_CPU, 0};
    THROW_IF_FAILED(DMLCreateDevice(&place, DML_CREATE_DEVICE_FLAG_NONE,
                                    IID_PPV_ARGS(dmlDevice.GetAddressOf())));
    THROW_IF_FAILED(
        dmlDevice->CreateCommandRecorder(IID_PPV_ARGS(dmlCommandRecorder.GetAddressOf())));
  }

  void Compile(DML_OPERATOR_TYPE type, const void* desc) {
    DML_OPERATOR_DESC dmlOperatorDesc = {};
    dmlOperatorDesc.Type = type;
    dmlOperatorDesc.Desc = desc;
    THROW_IF_FAILED(
        dmlDevice->CreateOperator(&dmlOperatorDesc, IID_PPV_ARGS(dmlOperator.GetAddressOf())));
    THROW_IF_FAILED(dmlDevice->CompileOperator(dmlOperator.Get(), DML_EXECUTION_FLAG_NONE,
                                               IID_PPV_ARGS(dmlCompiledOperator.GetAddressOf())));
    IDMLCompiledOperator* dmlCompiledOperators[] = {dmlCompiledOperator.Get()};
    THROW_IF_FAILED(
        dmlDevice->CreateOperatorInitializer(ARRAYSIZE(dmlCompiledOperators), dmlCompiledOperators,
                                             IID_PPV_ARGS(dmlOperatorInitializer.GetAddressOf())));

    dmlBindingTableDesc.Dispatchable = dmlOperatorInitializer.Get();
    THROW_IF_FAILED(dmlDevice->CreateBindingTable(&dmlBindingTableDesc,
                                                  IID_PPV_ARGS(dmlBindingTable.GetAddressOf())));
  }

  void Initialize() {
    dmlCommandRecorder->RecordDispatch(stream, dmlOperatorInitializer.Get(), dmlBindingTable.Get());
    dmlBindingTableDesc.Dispatchable = dmlCompiledOperator.Get();
    THROW_IF_FAILED(dmlBindingTable->Reset(&dmlBindingTableDesc));
  }

  void Execute() {
    dmlCommandRecorder->RecordDispatch(stream, dmlCompiledOperator.Get(), dmlBindingTable.Get());
    THROW_IF_FAILED(dmlDevice->GetDeviceRemovedReason());
  }

  ComPtr<IDMLDevice> dmlDevice;
  ComPtr<IDMLCommandRecorder> dmlCommandRecorder;
  ComPtr<IDMLOperator> dmlOperator;
  ComPtr<IDMLCompiledOperator> dmlCompiledOperator;
  ComPtr<IDMLOperatorInitializer> dmlOperatorInitializer;
  ComPtr<IDMLBindingTable> dmlBindingTable;
  DML_BINDING_TABLE_DESC dmlBindingTableDesc = {};
  CUDML_STREAM stream = nullptr;  // on a GPU, a cudaStream_t
};

void Print(const char* what, const Buffer& buffer, int count) {
  std::printf("%s", what);
  for (int i = 0; i < count; ++i) std::printf(" %.3g", buffer.Values()[i]);
  std::printf("\n");
}

// 1. HelloDirectML with a max pooling for its identity.
void HelloMaxPooling() {
  Program program;
  Tensor input({1, 2, 4, 6}), output({1, 2, 2, 3});
  const UINT two[] = {2, 2}, none[] = {0, 0};
  DML_MAX_POOLING_OPERATOR_DESC poolingDesc = {};
  poolingDesc.InputTensor = &input.desc;
  poolingDesc.OutputTensor = &output.desc;
  poolingDesc.DimensionCount = ARRAYSIZE(two);
  poolingDesc.Strides = two;
  poolingDesc.WindowSize = two;
  poolingDesc.StartPadding = none;
  poolingDesc.EndPadding = none;
  program.Compile(DML_OPERATOR_MAX_POOLING, &poolingDesc);
  program.Initialize();

  Buffer inputBuffer(input.Bytes()), outputBuffer(output.Bytes());
  Fill(inputBuffer);
  DML_BUFFER_BINDING inputBinding = {&inputBuffer, 0, input.Bytes()};
  DML_BINDING_DESC inputDesc = {DML_BINDING_TYPE_BUFFER, &inputBinding};
  program.dmlBindingTable->BindInputs(1, &inputDesc);
  DML_BUFFER_BINDING outputBinding = {&outputBuffer, 0, output.Bytes()};
  DML_BINDING_DESC outputDesc = {DML_BINDING_TYPE_BUFFER, &outputBinding};
  program.dmlBindingTable->BindOutputs(1, &outputDesc);
  program.Execute();
  Print("maxima", outputBuffer, 12);
}

// 2. A layer normalization whose scale and bias the operator keeps.

DML_MEAN_VARIANCE_NORMALIZATION1_OPERATOR_DESC Normalization(const Tensor& x,
                                                             const Tensor& weights) {
  static const UINT axes[] = {3};
  DML_MEAN_VARIANCE_NORMALIZATION1_OPERATOR_DESC desc = {};
  desc.InputTensor = &x.desc;
  desc.ScaleTensor = &weights.desc;
  desc.BiasTensor = &weights.desc;
  desc.OutputTensor = &x.desc;
  desc.AxisCount = ARRAYSIZE(axes);
  desc.Axes = axes;
  desc.NormalizeVariance = TRUE;
  desc.Epsilon = 1e-5f;
  return desc;
}

void OwnedWeights() {
  Program program;
  Tensor input({2, 1, 3, 4}), weights({1, 1, 1, 4}, DML_TENSOR_FLAG_OWNED_BY_DML);
  const auto normalizationDesc = Normalization(input, weights);
  program.Compile(DML_OPERATOR_MEAN_VARIANCE_NORMALIZATION1, &normalizationDesc);
  const UINT64 persistentSize =
      program.dmlCompiledOperator->GetBindingProperties().PersistentResourceSize;
  Buffer persistent(persistentSize), scale(weights.Bytes()), bias(weights.Bytes());
  Fill(scale);
  Fill(bias);
  DML_BUFFER_BINDING owned[] = {
      {nullptr, 0, 0}, {&scale, 0, weights.Bytes()}, {&bias, 0, weights.Bytes()}};
  DML_BUFFER_ARRAY_BINDING ownedArray = {ARRAYSIZE(owned), owned};
  DML_BINDING_DESC ownedDesc = {DML_BINDING_TYPE_BUFFER_ARRAY, &ownedArray};
  program.dmlBindingTable->BindInputs(1, &ownedDesc);
  DML_BUFFER_BINDING persistentBinding = {&persistent, 0, persistentSize};
  DML_BINDING_DESC persistentDesc = {DML_BINDING_TYPE_BUFFER, &persistentBinding};
  program.dmlBindingTable->BindOutputs(1, &persistentDesc);
  program.Initialize();

  Buffer data(input.Bytes());
  Fill(data);
  program.dmlBindingTable->BindPersistentResource(&persistentDesc);
  DML_BUFFER_BINDING dataBinding = {&data, 0, input.Bytes()};
  DML_BINDING_DESC inputs[] = {{DML_BINDING_TYPE_BUFFER, &dataBinding},
                               {DML_BINDING_TYPE_NONE, nullptr},
                               {DML_BINDING_TYPE_NONE, nullptr}};
  program.dmlBindingTable->BindInputs(ARRAYSIZE(inputs), inputs);
  program.dmlBindingTable->BindOutputs(1, inputs);  // in place
  program.Execute();
  Print("normalized", data, 4);
}

// 3. A gradient, which needs a temporary resource, and a mistake.

DML_MAX_POOLING_GRAD_OPERATOR_DESC Gradient(const Tensor& x, const Tensor& dy) {
  static const UINT one[] = {1, 1}, two[] = {2, 2}, none[] = {0, 0};
  return {&x.desc, &dy.desc, &x.desc, ARRAYSIZE(one), one, two, none, none, one};
}

void TemporaryResource() {
  Program program;
  Tensor input({1, 1, 3, 3}), inputGradient({1, 1, 2, 2});
  const auto gradientDesc = Gradient(input, inputGradient);
  program.Compile(DML_OPERATOR_MAX_POOLING_GRAD, &gradientDesc);
  program.Initialize();

  const UINT64 temporarySize =
      program.dmlCompiledOperator->GetBindingProperties().TemporaryResourceSize;
  Buffer temporary(temporarySize);
  if (temporarySize != 0) {
    DML_BUFFER_BINDING temporaryBinding = {&temporary, 0, temporarySize};
    DML_BINDING_DESC temporaryDesc = {DML_BINDING_TYPE_BUFFER, &temporaryBinding};
    program.dmlBindingTable->BindTemporaryResource(&temporaryDesc);
  }
  Buffer x(input.Bytes()), dy(inputGradient.Bytes()), dx(input.Bytes());
  Fill(x);
  Fill(dy);
  DML_BUFFER_BINDING bindings[] = {
      {&x, 0, input.Bytes()}, {&dy, 0, inputGradient.Bytes()}, {&dx, 0, input.Bytes()}};
  DML_BINDING_DESC inputs[] = {{DML_BINDING_TYPE_BUFFER, &bindings[0]},
                               {DML_BINDING_TYPE_BUFFER, &bindings[1]}};
  DML_BINDING_DESC output = {DML_BINDING_TYPE_BUFFER, &bindings[2]};
  program.dmlBindingTable->BindInputs(ARRAYSIZE(inputs), inputs);
  program.dmlBindingTable->BindOutputs(1, &output);
  program.Execute();
  Print("gradient", dx, 9);

  bindings[1].SizeInBytes = 8;  // too few
  program.dmlBindingTable->BindInputs(ARRAYSIZE(inputs), inputs);
  if (FAILED(program.dmlDevice->GetDeviceRemovedReason())) std::printf("%s\n", cudml_last_error());
}

int main() {
  HelloMaxPooling();
  OwnedWeights();
  TemporaryResource();
}
