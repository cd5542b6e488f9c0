// Runs operators through DirectML's interfaces: reads descriptors as text, each followed by the
// bytes of its tensors, and writes the bytes of the outputs. test_interfaces.py says what the text
// is.
#include "com_support.h"

#include <cstring>
#include <deque>
#include <iostream>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace {

/// Reads the fields of a struct in their order and keeps what they point to.
class Reader {
 public:
  template <class T>
  T value() {
    T read;
    std::cin >> read;
    return read;
  }
  const DML_TENSOR_DESC* tensor(bool is_output) {
    const std::string type = value<std::string>();
    if (type == "-") {
      (is_output ? outputs : inputs).push_back(nullptr);
      return nullptr;
    }
    DML_BUFFER_TENSOR_DESC& buffer = buffers_.emplace_back();
    buffer.DataType = DML_TENSOR_DATA_TYPE(std::stoi(type));
    buffer.Flags = DML_TENSOR_FLAGS(value<INT>());
    buffer.DimensionCount = value<UINT>();
    buffer.Sizes = array(buffer.DimensionCount);
    buffer.Strides = value<INT>() ? array(buffer.DimensionCount) : nullptr;
    buffer.TotalTensorSizeInBytes = value<UINT64>();
    (is_output ? outputs : inputs).push_back(&buffer);
    return &tensors_.emplace_back(DML_TENSOR_DESC{DML_TENSOR_TYPE_BUFFER, &buffer});
  }
  const DML_TENSOR_DESC* in() { return tensor(false); }
  const DML_TENSOR_DESC* out() { return tensor(true); }
  UINT count() { return count_ = value<UINT>(); }
  const UINT* array() { return array(count_); }
  FLOAT number() { return std::stof(value<std::string>()); }
  DML_PADDING_MODE mode() { return DML_PADDING_MODE(value<INT>()); }
  DML_TENSOR_DATA_TYPE data_type() { return DML_TENSOR_DATA_TYPE(value<INT>()); }
  DML_SCALAR_UNION scalar() {
    DML_SCALAR_UNION scalar;
    scalar.UInt64 = value<UINT64>();
    return scalar;
  }
  const DML_OPERATOR_DESC* activation();

  std::vector<const DML_BUFFER_TENSOR_DESC*> inputs, outputs;  // null where absent

 private:
  const UINT* array(UINT count) {
    std::vector<UINT>& entries = arrays_.emplace_back(count);
    for (UINT& entry : entries) entry = value<UINT>();
    return entries.data();
  }

  /// All activations with at most two numbers have this form.
  struct Activation {
    const DML_TENSOR_DESC *input, *output;
    FLOAT a, b;
    DML_OPERATOR_DESC desc;
  };

  UINT count_ = 0;
  std::deque<DML_BUFFER_TENSOR_DESC> buffers_;
  std::deque<DML_TENSOR_DESC> tensors_;
  std::deque<std::vector<UINT>> arrays_;
  std::deque<Activation> activations_;
};

#define ACTIVATION(name) {#name, DML_OPERATOR_##name}
const std::map<std::string, DML_OPERATOR_TYPE> kActivations = {
    ACTIVATION(ACTIVATION_CELU),
    ACTIVATION(ACTIVATION_ELU),
    ACTIVATION(ACTIVATION_GELU),
    ACTIVATION(ACTIVATION_HARD_SIGMOID),
    ACTIVATION(ACTIVATION_IDENTITY),
    ACTIVATION(ACTIVATION_LEAKY_RELU),
    ACTIVATION(ACTIVATION_LINEAR),
    ACTIVATION(ACTIVATION_PARAMETRIC_SOFTPLUS),
    ACTIVATION(ACTIVATION_RELU),
    ACTIVATION(ACTIVATION_SCALED_ELU),
    ACTIVATION(ACTIVATION_SCALED_TANH),
    ACTIVATION(ACTIVATION_SHRINK),
    ACTIVATION(ACTIVATION_SIGMOID),
    ACTIVATION(ACTIVATION_SOFTPLUS),
    ACTIVATION(ACTIVATION_SOFTSIGN),
    ACTIVATION(ACTIVATION_TANH),
    ACTIVATION(ACTIVATION_THRESHOLDED_RELU),
};

const DML_OPERATOR_DESC* Reader::activation() {
  const std::string name = value<std::string>();
  if (name == "-") return nullptr;
  Activation& made = activations_.emplace_back();
  made.a = number();
  made.b = number();
  made.desc = {kActivations.at(name), &made};
  return &made.desc;
}

// Braces evaluate from left to right: fields are read in the order of each struct.
#define WINDOW r.count(), r.array(), r.array(), r.array(), r.array()

template <class Desc>
Desc read(Reader& r);
template <>
DML_MAX_POOLING_OPERATOR_DESC read(Reader& r) {
  return {r.in(), r.out(), WINDOW};
}
template <>
DML_MAX_POOLING1_OPERATOR_DESC read(Reader& r) {
  return {r.in(), r.out(), r.out(), WINDOW};
}
template <>
DML_MAX_POOLING2_OPERATOR_DESC read(Reader& r) {
  return {r.in(), r.out(), r.out(), WINDOW, r.array()};
}
template <>
DML_MAX_POOLING_GRAD_OPERATOR_DESC read(Reader& r) {
  return {r.in(), r.in(), r.out(), WINDOW, r.array()};
}
template <>
DML_AVERAGE_POOLING_OPERATOR_DESC read(Reader& r) {
  return {r.in(), r.out(), WINDOW, r.value<BOOL>()};
}
template <>
DML_AVERAGE_POOLING1_OPERATOR_DESC read(Reader& r) {
  return {r.in(), r.out(), WINDOW, r.array(), r.value<BOOL>()};
}
template <>
DML_AVERAGE_POOLING_GRAD_OPERATOR_DESC read(Reader& r) {
  return {r.in(), r.out(), WINDOW, r.value<BOOL>()};
}
template <>
DML_LP_POOLING_OPERATOR_DESC read(Reader& r) {
  return {r.in(), r.out(), WINDOW, r.value<UINT>()};
}
template <>
DML_LP_POOLING1_OPERATOR_DESC read(Reader& r) {
  return {r.in(), r.out(), WINDOW, r.array(), r.value<UINT>()};
}
template <>
DML_PADDING_OPERATOR_DESC read(Reader& r) {
  return {r.in(), r.out(), r.mode(), r.number(), r.count(), r.array(), r.array()};
}
template <>
DML_PADDING1_OPERATOR_DESC read(Reader& r) {
  return {r.in(), r.out(), r.mode(), r.data_type(), r.scalar(), r.count(), r.array(), r.array()};
}
template <>
DML_MEAN_VARIANCE_NORMALIZATION_OPERATOR_DESC read(Reader& r) {
  return {r.in(),          r.in(),          r.in(),     r.out(),
          r.value<BOOL>(), r.value<BOOL>(), r.number(), r.activation()};
}
template <>
DML_MEAN_VARIANCE_NORMALIZATION1_OPERATOR_DESC read(Reader& r) {
  return {r.in(),    r.in(),          r.in(),     r.out(),       r.count(),
          r.array(), r.value<BOOL>(), r.number(), r.activation()};
}
template <>
DML_MEAN_VARIANCE_NORMALIZATION2_OPERATOR_DESC read(Reader& r) {
  return {r.in(),    r.in(),          r.in(),          r.out(),    r.count(),
          r.array(), r.value<BOOL>(), r.value<BOOL>(), r.number(), r.activation()};
}
template <>
DML_MAX_UNPOOLING_OPERATOR_DESC read(Reader& r) {
  return {r.in(), r.in(), r.out()};
}
template <>
DML_BATCH_NORMALIZATION_OPERATOR_DESC read(Reader& r) {
  return {r.in(),  r.in(),          r.in(),     r.in(),        r.in(),
          r.out(), r.value<BOOL>(), r.number(), r.activation()};
}
#define GRADIENTS r.in(), r.in(), r.in(), r.in(), r.in(), r.out(), r.out(), r.out(), r.number()
template <>
DML_BATCH_NORMALIZATION_GRAD_OPERATOR_DESC read(Reader& r) {
  return {GRADIENTS};
}
template <>
DML_BATCH_NORMALIZATION_TRAINING_GRAD_OPERATOR_DESC read(Reader& r) {
  return {GRADIENTS};
}

template <class Desc, DML_OPERATOR_TYPE type>
void Create(Reader& reader, IDMLDevice* device, IDMLOperator** op) {
  const Desc desc = read<Desc>(reader);
  const DML_OPERATOR_DESC operatorDesc = {type, &desc};
  Check(device->CreateOperator(&operatorDesc, IID_PPV_ARGS(op)), "CreateOperator");
}

#define OPERATOR(name) {#name, Create<DML_##name##_OPERATOR_DESC, DML_OPERATOR_##name>}
const std::map<std::string, void (*)(Reader&, IDMLDevice*, IDMLOperator**)> kOperators = {
    OPERATOR(MAX_POOLING),
    OPERATOR(MAX_POOLING1),
    OPERATOR(MAX_POOLING2),
    OPERATOR(MAX_POOLING_GRAD),
    OPERATOR(AVERAGE_POOLING),
    OPERATOR(AVERAGE_POOLING1),
    OPERATOR(AVERAGE_POOLING_GRAD),
    OPERATOR(LP_POOLING),
    OPERATOR(LP_POOLING1),
    OPERATOR(PADDING),
    OPERATOR(PADDING1),
    OPERATOR(MEAN_VARIANCE_NORMALIZATION),
    OPERATOR(MEAN_VARIANCE_NORMALIZATION1),
    OPERATOR(MEAN_VARIANCE_NORMALIZATION2),
    OPERATOR(MAX_UNPOOLING),
    OPERATOR(BATCH_NORMALIZATION),
    OPERATOR(BATCH_NORMALIZATION_GRAD),
    OPERATOR(BATCH_NORMALIZATION_TRAINING_GRAD),
};

/// The memory of tensors, at offsets that differ, filled from the standard input.
class Tensors {
 public:
  explicit Tensors(const std::vector<const DML_BUFFER_TENSOR_DESC*>& descs) : descs_(descs) {
    for (const auto* desc : descs) {
      auto& memory = memories_.emplace_back();
      if (!desc) continue;
      const UINT64 bytes = desc->TotalTensorSizeInBytes;
      memory = std::make_unique<Memory>(bytes, 16 * memories_.size());
      std::cin.read(static_cast<char*>(memory->data()), std::streamsize(bytes));
      memory->Upload();
    }
  }

  /// One binding per tensor: nothing where one is absent or handed over once.
  std::vector<DML_BINDING_DESC> bindings() const {
    std::vector<DML_BINDING_DESC> bindings(descs_.size());
    for (size_t i = 0; i < descs_.size(); ++i)
      if (descs_[i] && !descs_[i]->Flags) bindings[i] = memories_[i]->binding();
    return bindings;
  }
  /// Those that are handed over once.
  std::vector<DML_BUFFER_BINDING> owned() const {
    std::vector<DML_BUFFER_BINDING> owned(descs_.size());
    for (size_t i = 0; i < descs_.size(); ++i)
      if (descs_[i] && descs_[i]->Flags) owned[i] = memories_[i]->buffer_binding();
    return owned;
  }
  void Forget() {  // those handed over: the operator has its copy
    for (size_t i = 0; i < descs_.size(); ++i) {
      if (!descs_[i] || !descs_[i]->Flags) continue;
      std::memset(memories_[i]->data(), 0xee, memories_[i]->size());
      memories_[i]->Upload();
    }
  }
  void Write() {
    for (const auto& memory : memories_) {
      if (!memory) continue;
      memory->Download();
      std::fwrite(memory->data(), 1, memory->size(), stdout);
    }
  }

 private:
  std::vector<const DML_BUFFER_TENSOR_DESC*> descs_;
  std::vector<std::unique_ptr<Memory>> memories_;
};

void Initialize(IDMLDevice* device, IDMLCommandRecorder* recorder, IDMLCompiledOperator* compiled,
                Tensors& inputs, const Memory& persistent, IDMLBindingTable** table) {
  Ptr<IDMLOperatorInitializer> initializer;
  Check(device->CreateOperatorInitializer(1, &compiled, IID_PPV_ARGS(&initializer)),
        "CreateOperatorInitializer");
  const DML_BINDING_TABLE_DESC tableDesc = {initializer.get(), 0};
  Check(device->CreateBindingTable(&tableDesc, IID_PPV_ARGS(table)), "CreateBindingTable");
  const std::vector<DML_BUFFER_BINDING> owned = inputs.owned();
  const DML_BUFFER_ARRAY_BINDING array = {UINT(owned.size()), owned.data()};
  const DML_BINDING_DESC input = {DML_BINDING_TYPE_BUFFER_ARRAY, &array};
  const DML_BINDING_DESC output = persistent.binding();
  if (persistent.size()) {
    (*table)->BindInputs(1, &input);
    (*table)->BindOutputs(1, &output);
  }
  recorder->RecordDispatch(Stream(), initializer.get(), *table);
  Check(device->GetDeviceRemovedReason(), "initialization");
  inputs.Forget();
}

void Run(IDMLDevice* device, IDMLCommandRecorder* recorder, const std::string& name) {
  Reader reader;
  Ptr<IDMLOperator> op;
  kOperators.at(name)(reader, device, &op);
  std::cin.get();  // the end of the text's line
  Tensors inputs(reader.inputs), outputs(reader.outputs);
  Ptr<IDMLCompiledOperator> compiled;
  Check(device->CompileOperator(op.get(), DML_EXECUTION_FLAG_NONE, IID_PPV_ARGS(&compiled)),
        "CompileOperator");
  const DML_BINDING_PROPERTIES properties = compiled->GetBindingProperties();
  Memory persistent(properties.PersistentResourceSize, 256);
  Memory temporary(properties.TemporaryResourceSize, 512);
  Ptr<IDMLBindingTable> table;
  Initialize(device, recorder, compiled.get(), inputs, persistent, &table);

  const DML_BINDING_TABLE_DESC tableDesc = {compiled.get(), 0};
  Check(table->Reset(&tableDesc), "Reset");
  const DML_BINDING_DESC scratch = temporary.binding(), kept = persistent.binding();
  if (temporary.size()) table->BindTemporaryResource(&scratch);
  if (persistent.size()) table->BindPersistentResource(&kept);
  const auto in = inputs.bindings(), out = outputs.bindings();
  table->BindInputs(UINT(in.size()), in.data());
  table->BindOutputs(UINT(out.size()), out.data());
  recorder->RecordDispatch(Stream(), compiled.get(), table.get());
  Check(device->GetDeviceRemovedReason(), name.c_str());
  outputs.Write();
}

}  // namespace

int main() {
  Ptr<IDMLDevice> device;
  Check(DMLCreateDevice(&kPlace, DML_CREATE_DEVICE_FLAG_NONE, IID_PPV_ARGS(&device)),
        "DMLCreateDevice");
  Ptr<IDMLCommandRecorder> recorder;
  Check(device->CreateCommandRecorder(IID_PPV_ARGS(&recorder)), "CreateCommandRecorder");
  for (std::string name; std::cin >> name;) Run(device.get(), recorder.get(), name);
}
