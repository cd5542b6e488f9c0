// What an initializer keeps of inputs that are OWNED_BY_DML: prints what each case answers, a line
// per case, for test_owned.py to compare. Each has a device of its own, which a failure removes.
#include "com_support.h"

#include <algorithm>

namespace {

constexpr UINT kSizes[] = {1, 1, 4, 4};
constexpr UINT64 kBytes = 64, kKept = 256;
constexpr auto kOwned = DML_TENSOR_FLAG_OWNED_BY_DML;
constexpr auto kFloat = DML_TENSOR_DATA_TYPE_FLOAT32;

void Say(const char* label, HRESULT result) {
  std::printf("%s|%08x|%s\n", label, unsigned(result), FAILED(result) ? cudml_last_error() : "");
}

struct Fixture {
  Fixture() {
    Check(DMLCreateDevice(&kCpu, DML_CREATE_DEVICE_FLAG_NONE, IID_PPV_ARGS(&device)), "device");
    Check(device->CreateCommandRecorder(IID_PPV_ARGS(&recorder)), "recorder");
    Check(device->CreateBindingTable(nullptr, IID_PPV_ARGS(&table)), "table");
  }

  /// A normalization of an input and a scale, owned where their bytes are given.
  HRESULT Compile(UINT64 input, UINT64 scale, Ptr<IDMLCompiledOperator>& compiled) {
    const auto buffer = [](UINT64 owned) {
      return DML_BUFFER_TENSOR_DESC{
          kFloat, owned ? kOwned : DML_TENSOR_FLAG_NONE, 4, kSizes, nullptr, owned ? owned : kBytes,
          0};
    };
    const DML_BUFFER_TENSOR_DESC x = buffer(input), s = buffer(scale), y = buffer(0);
    const DML_TENSOR_DESC tensors[] = {
        {DML_TENSOR_TYPE_BUFFER, &x}, {DML_TENSOR_TYPE_BUFFER, &s}, {DML_TENSOR_TYPE_BUFFER, &y}};
    const DML_MEAN_VARIANCE_NORMALIZATION_OPERATOR_DESC mvn = {
        &tensors[0], &tensors[1], nullptr, &tensors[2], FALSE, TRUE, 1e-5f, nullptr};
    const DML_OPERATOR_DESC desc = {DML_OPERATOR_MEAN_VARIANCE_NORMALIZATION, &mvn};
    Ptr<IDMLOperator> op;
    Check(device->CreateOperator(&desc, IID_PPV_ARGS(&op)), "CreateOperator");
    return device->CompileOperator(op.get(), DML_EXECUTION_FLAG_NONE, IID_PPV_ARGS(&compiled));
  }

  void Reset(IDMLDispatchable* dispatchable) {
    const DML_BINDING_TABLE_DESC desc = {dispatchable, 0};
    Check(table->Reset(&desc), "Reset");
  }

  /// Two normalizations that own their scales, which lie at these bindings and are kept in those.
  HRESULT InitializeTwo(const DML_BUFFER_BINDING (&scales)[2], const DML_BINDING_DESC (&kept)[2]) {
    Ptr<IDMLCompiledOperator> first, second;
    Check(Compile(0, kBytes, first), "first");
    Check(Compile(0, kBytes, second), "second");
    IDMLCompiledOperator* const both[] = {first.get(), second.get()};
    Ptr<IDMLOperatorInitializer> initializer;
    Check(device->CreateOperatorInitializer(2, both, IID_PPV_ARGS(&initializer)), "initializer");
    Reset(initializer.get());
    const DML_BUFFER_BINDING owned[][3] = {{{}, scales[0], {}}, {{}, scales[1], {}}};
    const DML_BUFFER_ARRAY_BINDING arrays[] = {{3, owned[0]}, {3, owned[1]}};
    const DML_BINDING_DESC inputs[] = {{DML_BINDING_TYPE_BUFFER_ARRAY, &arrays[0]},
                                       {DML_BINDING_TYPE_BUFFER_ARRAY, &arrays[1]}};
    table->BindInputs(2, inputs);
    table->BindOutputs(2, kept);
    recorder->RecordDispatch(nullptr, initializer.get(), table.get());
    return device->GetDeviceRemovedReason();
  }

  Ptr<IDMLDevice> device;
  Ptr<IDMLCommandRecorder> recorder;
  Ptr<IDMLBindingTable> table;
};

void Sizes() {
  constexpr UINT64 kMost = UINT64(1) << 62;
  const auto compile = [](const char* label, UINT64 input, UINT64 scale) {
    Fixture f;
    Ptr<IDMLCompiledOperator> compiled;
    Say(label, f.Compile(input, scale, compiled));
    if (compiled.get() && compiled->GetBindingProperties().PersistentResourceSize < input + scale)
      std::puts("less is kept than there is");
  };
  compile("as much as there may be", kMost - 256, 256);
  compile("a byte count that wraps around", 0, ~UINT64(3));
  compile("two of them that wrap around", kMost, 64);
}

DML_BUFFER_BINDING Part(const Memory& memory, UINT64 offset, UINT64 size) {
  DML_BUFFER_BINDING binding = memory.buffer_binding();
  binding.Offset = offset;
  binding.SizeInBytes = size;
  return binding;
}

void Initializers() {
  const Memory memory(3 * kKept, 0), scales(2 * kBytes, 0);
  std::fill_n(static_cast<char*>(memory.data()), memory.size(), char(7));
  const DML_BUFFER_BINDING first = Part(scales, 0, kBytes), second = Part(scales, kBytes, kBytes);
  const auto initialize = [&](const char* label, const DML_BUFFER_BINDING& second_scale,
                              UINT64 first_kept, UINT64 second_kept) {
    // What is bound goes on to the end of the buffer; what is written does not.
    const DML_BUFFER_BINDING kept[] = {Part(memory, first_kept, memory.size() - first_kept),
                                       Part(memory, second_kept, memory.size() - second_kept)};
    Fixture f;
    Say(label, f.InitializeTwo({first, second_scale}, {{DML_BINDING_TYPE_BUFFER, &kept[0]},
                                                       {DML_BINDING_TYPE_BUFFER, &kept[1]}}));
    const auto* bytes = static_cast<const char*>(memory.data());
    if (std::count(bytes, bytes + memory.size(), char(7)) != int(memory.size()))
      std::puts("something was written");
  };
  initialize("two that are kept in one place", second, 0, 0);
  initialize("one that is kept where the other's scale is", Part(memory, kBytes, kBytes), 0, kKept);
  std::fill_n(static_cast<char*>(scales.data()), scales.size(), char(7));
  initialize("two that are kept side by side", second, 0, kKept);
  initialize("two that are kept the other way round", second, kKept, 0);
  initialize("one that is kept before the other's scale", Part(memory, kKept, kBytes), 0,
             2 * kKept);
}

/// Without the check the second dispatch would normalize what the first has written.
void OutputInWhatIsKept() {
  Fixture f;
  Ptr<IDMLCompiledOperator> compiled;
  Check(f.Compile(kBytes, 0, compiled), "CompileOperator");
  IDMLCompiledOperator* const operators[] = {compiled.get()};
  Ptr<IDMLOperatorInitializer> initializer;
  Check(f.device->CreateOperatorInitializer(1, operators, IID_PPV_ARGS(&initializer)), "init");
  const Memory input(kBytes, 0), kept(kKept, 0);
  const DML_BUFFER_BINDING owned[] = {input.buffer_binding(), {}, {}};
  const DML_BUFFER_ARRAY_BINDING array = {3, owned};
  const DML_BINDING_DESC from = {DML_BINDING_TYPE_BUFFER_ARRAY, &array}, to = kept.binding();
  std::fill_n(static_cast<char*>(input.data()), kBytes, char(7));
  f.Reset(initializer.get());
  f.table->BindInputs(1, &from);
  f.table->BindOutputs(1, &to);
  f.recorder->RecordDispatch(nullptr, initializer.get(), f.table.get());
  Check(f.device->GetDeviceRemovedReason(), "initialization");
  f.Reset(compiled.get());
  const DML_BINDING_DESC inputs[] = {{}, input.binding(), {}};
  f.table->BindInputs(3, inputs);
  f.table->BindOutputs(1, &to);
  f.table->BindPersistentResource(&to);
  f.recorder->RecordDispatch(nullptr, compiled.get(), f.table.get());
  Say("output in what is kept", f.device->GetDeviceRemovedReason());
  const auto* bytes = static_cast<const char*>(kept.data());
  if (std::count(bytes, bytes + kBytes, char(7)) != int(kBytes)) std::puts("what is kept changed");
}

void InputInWhatIsKept() {
  Fixture f;
  Ptr<IDMLCompiledOperator> compiled;
  Check(f.Compile(kBytes, 0, compiled), "CompileOperator");
  IDMLCompiledOperator* const operators[] = {compiled.get()};
  Ptr<IDMLOperatorInitializer> initializer;
  Check(f.device->CreateOperatorInitializer(1, operators, IID_PPV_ARGS(&initializer)), "init");
  const Memory kept(kKept, 0);
  const DML_BUFFER_BINDING owned[] = {Part(kept, kKept - kBytes, kBytes), {}, {}};
  const DML_BUFFER_ARRAY_BINDING array = {3, owned};
  const DML_BINDING_DESC from = {DML_BINDING_TYPE_BUFFER_ARRAY, &array}, to = kept.binding();
  f.Reset(initializer.get());
  f.table->BindInputs(1, &from);
  f.table->BindOutputs(1, &to);
  f.recorder->RecordDispatch(nullptr, initializer.get(), f.table.get());
  Say("input in what is kept", f.device->GetDeviceRemovedReason());
}

}  // namespace

int main() {
  Sizes();
  Initializers();
  OutputInWhatIsKept();
  InputInWhatIsKept();
}
