// Misuse of DirectML's interfaces: prints what each call answers, a line per call, for
// test_misuse.py to compare. The device is removed by some of the calls, so each part has one of
// its own.
#include "fixture.h"

#include <cstring>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace {

void Say(const char* label, HRESULT result) {
  std::printf("%s|%08x|%s\n", label, unsigned(result), FAILED(result) ? cudml_last_error() : "");
}

/// One call on a fixture of its own, then the reason of its device's removal.
template <class Call>
void Removed(const char* label, const Call& call, bool is_initialized = true) {
  Fixture f(is_initialized);
  std::memset(f.output.data(), 0x5a, kPooledBytes);
  call(f);
  Say(label, f.device->GetDeviceRemovedReason());
  for (UINT64 i = 0; i < kPooledBytes; ++i)
    if (static_cast<unsigned char*>(f.output.data())[i] != 0x5a) std::puts("output was written");
}

void Devices() {
  Ptr<IDMLDevice> device;
  Ptr<IDMLOperator> op;
  const auto create = [&](CUDML_DEVICE_DESC desc, int flags) {
    return DMLCreateDevice(&desc, DML_CREATE_DEVICE_FLAGS(flags), IID_PPV_ARGS(&device));
  };
  Say("null device", DMLCreateDevice(nullptr, DML_CREATE_DEVICE_FLAG_NONE, IID_PPV_ARGS(&device)));
  Say("device type 7", create({CUDML_DEVICE_TYPE(7), 0}, 0));
  Say("second CPU", create({CUDML_DEVICE_TYPE_CPU, 1}, 0));
  Say("device 4000", create({CUDML_DEVICE_TYPE_CUDA, 4000}, 0));
  UINT devices = 0;
  std::sscanf(std::strstr(cudml_last_error(), "there are "), "there are %u", &devices);
  Say("the device after the last", create({CUDML_DEVICE_TYPE_CUDA, devices}, 0));
  Say("device flags", create(kCpu, 6));
  Say("device of an operator's interface", DMLCreateDevice(&kCpu, {}, IID_PPV_ARGS(&op)));
  Say("device without ppv", DMLCreateDevice(&kCpu, {}, __uuidof(IDMLDevice), nullptr));
  const auto at_least = [&](int level) {
    return DMLCreateDevice1(&kCpu, {}, DML_FEATURE_LEVEL(level), IID_PPV_ARGS(&device));
  };
  Say("level 6_4", at_least(DML_FEATURE_LEVEL_6_4));
  Say("level 7_0", at_least(0x7000));
  Say("level 0", at_least(0));
}

template <class Query, class Data>
HRESULT Ask(IDMLDevice* device, DML_FEATURE feature, const Query& query, Data* data) {
  return device->CheckFeatureSupport(feature, sizeof query, &query, sizeof *data, data);
}

void Features() {
  Fixture f;
  DML_FEATURE_DATA_TENSOR_DATA_TYPE_SUPPORT type = {};
  std::string supported;
  for (int t = -1; t < 15; ++t) {
    const DML_FEATURE_QUERY_TENSOR_DATA_TYPE_SUPPORT query = {DML_TENSOR_DATA_TYPE(t)};
    Check(Ask(f.device.get(), DML_FEATURE_TENSOR_DATA_TYPE_SUPPORT, query, &type), "types");
    if (type.IsSupported) supported += std::to_string(t) + " ";
  }
  std::printf("types %s|00000000|\n", supported.c_str());
  const DML_FEATURE_LEVEL levels[] = {DML_FEATURE_LEVEL_2_0, DML_FEATURE_LEVEL_5_0,
                                      DML_FEATURE_LEVEL(0x7000), DML_FEATURE_LEVEL_3_1};
  DML_FEATURE_QUERY_FEATURE_LEVELS query = {4, levels};
  DML_FEATURE_DATA_FEATURE_LEVELS level = {};
  Say("levels", Ask(f.device.get(), DML_FEATURE_FEATURE_LEVELS, query, &level));
  std::printf("highest level %x|00000000|\n", unsigned(level.MaxSupportedFeatureLevel));
  query = {1, levels + 2};
  Say("unknown level", Ask(f.device.get(), DML_FEATURE_FEATURE_LEVELS, query, &level));
  query = {0, nullptr};
  Say("no levels", Ask(f.device.get(), DML_FEATURE_FEATURE_LEVELS, query, &level));
  Say("feature 2", Ask(f.device.get(), DML_FEATURE(2), query, &level));
  Say("query of another size", Ask(f.device.get(), DML_FEATURE_FEATURE_LEVELS, 1, &level));
  Say("null query",
      f.device->CheckFeatureSupport(DML_FEATURE_FEATURE_LEVELS, 16, nullptr, 4, &level));
  query = {1, nullptr};
  Say("null levels", Ask(f.device.get(), DML_FEATURE_FEATURE_LEVELS, query, &level));
  query = {0, levels};
  Say("none of the levels", Ask(f.device.get(), DML_FEATURE_FEATURE_LEVELS, query, &level));
  query = {4, levels};
  Say("null answer", f.device->CheckFeatureSupport(DML_FEATURE_FEATURE_LEVELS, sizeof query, &query,
                                                   sizeof level, nullptr));
}

void Operators() {
  Fixture f;
  Ptr<IDMLOperator> op;
  IDMLDevice* const device = f.device.get();
  const auto create = [&](DML_OPERATOR_TYPE type, const void* desc) {
    const DML_OPERATOR_DESC operatorDesc = {type, desc};
    return device->CreateOperator(&operatorDesc, IID_PPV_ARGS(&op));
  };
  Say("null desc", device->CreateOperator(nullptr, IID_PPV_ARGS(&op)));
  Say("unknown operator", create(DML_OPERATOR_TYPE(9999), &f.pooling));
  Say("null operator desc", create(DML_OPERATOR_MAX_POOLING1, nullptr));
  f.mvn.ScaleTensor = f.mvn.BiasTensor = nullptr;
  const DML_OPERATOR_DESC itself = {DML_OPERATOR_MEAN_VARIANCE_NORMALIZATION, &f.mvn};
  f.mvn.FusedActivation = &itself;
  Say("activation that is its host", create(itself.Type, &f.mvn));
  f.y.buffer.TotalTensorSizeInBytes = 28;
  Say("short tensor", create(DML_OPERATOR_MAX_POOLING1, &f.pooling));
  f.y.buffer.TotalTensorSizeInBytes = kPooledBytes;
  f.y.buffer.DataType = DML_TENSOR_DATA_TYPE_FLOAT64;
  Say("type that is not taken", create(DML_OPERATOR_MAX_POOLING1, &f.pooling));
  f.y.buffer.DataType = DML_TENSOR_DATA_TYPE_FLOAT32;
  f.y.buffer.Flags = DML_TENSOR_FLAG_OWNED_BY_DML;
  Say("owned output", create(DML_OPERATOR_MAX_POOLING1, &f.pooling));
  f.y.buffer.Flags = DML_TENSOR_FLAG_NONE;
  const DML_OPERATOR_DESC right = {DML_OPERATOR_MAX_POOLING1, &f.pooling};
  Say("operator without ppv", device->CreateOperator(&right, __uuidof(IDMLOperator), nullptr));
  Say("operator as a device",
      device->CreateOperator(&right, __uuidof(IDMLDevice), reinterpret_cast<void**>(&op)));
  std::printf("pointer after a failure %p|00000000|\n", static_cast<void*>(op.get()));
}

void Compilation() {
  Fixture f, other;
  Ptr<IDMLCompiledOperator> compiled;
  Ptr<IDMLOperatorInitializer> initializer;
  Ptr<IDMLBindingTable> table;
  IDMLDevice* const device = f.device.get();
  Say("null op", device->CompileOperator(nullptr, {}, IID_PPV_ARGS(&compiled)));
  Say("op of another device",
      device->CompileOperator(other.poolingOperator.get(), {}, IID_PPV_ARGS(&compiled)));
  Say("all flags", device->CompileOperator(f.poolingOperator.get(), DML_EXECUTION_FLAGS(7),
                                           IID_PPV_ARGS(&compiled)));
  Say("flag 8", device->CompileOperator(f.poolingOperator.get(), DML_EXECUTION_FLAGS(8),
                                        IID_PPV_ARGS(&compiled)));
  Say("null operators", device->CreateOperatorInitializer(2, nullptr, IID_PPV_ARGS(&initializer)));
  IDMLCompiledOperator* holed[] = {f.pool.get(), nullptr};
  Say("null among operators",
      device->CreateOperatorInitializer(2, holed, IID_PPV_ARGS(&initializer)));
  Say("initializer without ppv",
      device->CreateOperatorInitializer(0, nullptr, __uuidof(IDMLOperatorInitializer), nullptr));
  const DML_BINDING_TABLE_DESC none = {nullptr, 0}, foreign = {other.pool.get(), 0};
  Say("null dispatchable", device->CreateBindingTable(&none, IID_PPV_ARGS(&table)));
  Say("dispatchable of another device", device->CreateBindingTable(&foreign, IID_PPV_ARGS(&table)));
  IDMLPageable* pageables[] = {f.pool.get(), nullptr};
  Say("evict", device->Evict(1, pageables));
  Say("make resident", device->MakeResident(1, pageables));
  Say("evict null", device->Evict(2, pageables));
  Say("null resident", device->MakeResident(2, pageables));
  std::swap(pageables[0], pageables[1]);
  Say("evict null first", device->Evict(2, pageables));
  Say("evict nothing", device->Evict(1, nullptr));
  Say("still there", device->GetDeviceRemovedReason());
}

/// Refused, every method leaves null where it would have put an object.
void OutPointers() {
  Fixture f;
  const DML_OPERATOR_DESC none = {};
  const DML_BINDING_TABLE_DESC table = {};
  void* out = &f;
  const auto say = [&](const char* label, HRESULT result) {
    std::printf("%s %p|%08x|\n", label, out, unsigned(result));
    out = &f;
  };
  const GUID& op = __uuidof(IDMLOperator);
  say("device", DMLCreateDevice(nullptr, DML_CREATE_DEVICE_FLAG_NONE, op, &out));
  say("operator", f.device->CreateOperator(&none, op, &out));
  say("compiled", f.device->CompileOperator(nullptr, DML_EXECUTION_FLAG_NONE, op, &out));
  say("initializer", f.device->CreateOperatorInitializer(1, nullptr, op, &out));
  say("recorder of a removed device",
      (f.Record(nullptr), f.device->CreateCommandRecorder(op, &out)));
  Fixture other;
  say("table", other.device->CreateBindingTable(&table, op, &out));
}

DML_BINDING_DESC Changed(const Memory& memory, UINT64 offset, UINT64 size,
                         DML_BUFFER_BINDING* changed) {
  *changed = memory.buffer_binding();
  changed->Offset = offset;
  changed->SizeInBytes = size;
  return {DML_BINDING_TYPE_BUFFER, changed};
}

void InputsOf(const char* label, const DML_BINDING_DESC& binding, UINT count = 1) {
  Removed(label, [&](Fixture& f) {
    const std::vector<DML_BINDING_DESC> all(count, binding);
    f.table->BindInputs(count, all.data());
  });
}

void Inputs() {
  const Memory memory(256, 0);
  DML_BUFFER_BINDING changed;
  InputsOf("two inputs", memory.binding(), 2);
  InputsOf("no inputs", memory.binding(), 0);
  InputsOf("binding of type 9", {DML_BINDING_TYPE(9), &changed});
  InputsOf("binding without desc", {DML_BINDING_TYPE_BUFFER, nullptr});
  InputsOf("input unbound", {DML_BINDING_TYPE_NONE, nullptr});
  const DML_BUFFER_ARRAY_BINDING array = {1, &memory.buffer_binding()}, empty = {3, nullptr};
  const DML_BUFFER_ARRAY_BINDING endless = {0xffffffff, &memory.buffer_binding()};
  InputsOf("input as an array", {DML_BINDING_TYPE_BUFFER_ARRAY, &array});
  InputsOf("array without bindings", {DML_BINDING_TYPE_BUFFER_ARRAY, &empty});
  const CUDML_BUFFER nothing = {nullptr, 256};
  const DML_BUFFER_BINDING holed[] = {{}, {&nothing, 0, 16}};
  const DML_BUFFER_ARRAY_BINDING holedArray = {2, holed}, emptyArray = {0, nullptr};
  InputsOf("array with a hole", {DML_BINDING_TYPE_BUFFER_ARRAY, &holedArray});
  InputsOf("array of nothing", {DML_BINDING_TYPE_BUFFER_ARRAY, &emptyArray});
  InputsOf("endless array", {DML_BINDING_TYPE_BUFFER_ARRAY, &endless});
  Removed("endless bindings", [&](Fixture& f) {
    const DML_BINDING_DESC in = memory.binding();
    f.table->BindInputs(0xffffffff, &in);
  });
  InputsOf("too few bytes", Changed(memory, 0, 124, &changed));
  InputsOf("odd offset", Changed(memory, 8, kBytes, &changed));
  InputsOf("offset beyond the end", Changed(memory, 272, kBytes, &changed));
  InputsOf("offset that wraps around", Changed(memory, ~UINT64(15), kBytes, &changed));
  InputsOf("more than the buffer", Changed(memory, 144, kBytes, &changed));
  InputsOf("no bytes", Changed(memory, 0, 0, &changed));
  const CUDML_BUFFER hollow = {nullptr, 256};
  const DML_BUFFER_BINDING nowhere = {&hollow, 0, kBytes};
  InputsOf("buffer without data", {DML_BINDING_TYPE_BUFFER, &nowhere});
  Removed("null bindings", [](Fixture& f) { f.table->BindInputs(1, nullptr); });
}

void OutputsAndResources() {
  const Memory memory(256, 0);
  DML_BUFFER_BINDING changed;
  Removed("one output", [&](Fixture& f) {
    const DML_BINDING_DESC out = memory.binding();
    f.table->BindOutputs(1, &out);
  });
  Removed("output that is not there", [&](Fixture& f) {
    const DML_BINDING_DESC out[] = {memory.binding(), memory.binding()};
    f.table->BindOutputs(2, out);
  });
  Removed("owned input bound again", [&](Fixture& f) {
    f.Reset(f.norm.get());
    const DML_BINDING_DESC in[] = {memory.binding(), memory.binding(), {}};
    f.table->BindInputs(3, in);
  });
  Removed("odd temporary", [&](Fixture& f) {
    const DML_BINDING_DESC binding = Changed(memory, 16, 64, &changed);
    f.table->BindTemporaryResource(&binding);
  });
  Removed("odd persistent", [&](Fixture& f) {
    const DML_BINDING_DESC binding = Changed(memory, 16, 64, &changed);
    f.table->BindPersistentResource(&binding);
  });
  Removed("nothing temporary, nothing persistent", [&](Fixture& f) {
    f.table->BindTemporaryResource(nullptr);
    f.table->BindPersistentResource(nullptr);
  });
}

void NoTemporary(const char* label, UINT64 bytes) {
  Removed(label, [&](Fixture& f) {
    f.Reset(f.grad.get());
    const DML_BINDING_DESC in[] = {f.input.binding(), f.output.binding()};
    const DML_BINDING_DESC out = f.scale.binding();
    const Memory memory(bytes, 0);
    const DML_BINDING_DESC temporary = memory.binding();
    f.table->BindInputs(2, in);
    f.table->BindOutputs(1, &out);
    if (bytes) f.table->BindTemporaryResource(&temporary);
    f.Record(f.grad.get());
  });
}

void Dispatches() {
  Removed("not initialized", [](Fixture& f) { f.BindPool(), f.Record(f.pool.get()); }, false);
  Removed("nothing bound", [](Fixture& f) { f.Record(f.pool.get()); });
  Removed("null dispatchable", [](Fixture& f) { f.BindPool(), f.Record(nullptr); });
  Removed("null table",
          [](Fixture& f) { f.recorder->RecordDispatch(nullptr, f.pool.get(), nullptr); });
  Removed("table of another dispatchable",
          [](Fixture& f) { f.BindPool(), f.Record(f.grad.get()); });
  NoTemporary("no temporary resource", 0);
  NoTemporary("temporary resource too small", 4);
  Removed("stream on the CPU", [](Fixture& f) {
    f.BindPool();
    f.recorder->RecordDispatch(&f, f.pool.get(), f.table.get());
  });
  Removed("output in the input", [](Fixture& f) {
    const DML_BINDING_DESC in = f.input.binding(), out[] = {f.input.binding(), {}};
    f.table->BindInputs(1, &in);
    f.table->BindOutputs(2, out);
    f.Record(f.pool.get());
  });
  const auto normalize = [](Fixture& f, UINT64 at, Memory& memory) {
    f.Reset(f.norm.get());
    const DML_BUFFER_BINDING to = {memory.buffer_binding().Buffer, at, kBytes};
    const DML_BINDING_DESC in[] = {memory.binding(), {}, {}}, out = {DML_BINDING_TYPE_BUFFER, &to};
    const DML_BINDING_DESC kept = f.persistent.binding();
    f.table->BindInputs(3, in);
    f.table->BindOutputs(1, &out);
    f.table->BindPersistentResource(&kept);
    f.Record(f.norm.get());
  };
  Memory memory(2 * kBytes, 0);
  std::memset(memory.data(), 0, memory.size());
  Removed("output where the input is", [&](Fixture& f) { normalize(f, 0, memory); });
  Removed("output in a part of the input", [&](Fixture& f) { normalize(f, 16, memory); });
  Removed("no persistent resource", [](Fixture& f) {
    f.Reset(f.norm.get());
    const DML_BINDING_DESC in[] = {f.input.binding(), {}, {}}, out = f.scale.binding();
    f.table->BindInputs(3, in);
    f.table->BindOutputs(1, &out);
    f.Record(f.norm.get());
  });
  Removed("table without dispatchable", [](Fixture& f) {
    Check(f.table->Reset(nullptr), "Reset");
    f.table->BindInputs(0, nullptr);
  });
}

void InitializeWith(Fixture& f, IDMLCompiledOperator* op, const DML_BINDING_DESC& in,
                    const DML_BINDING_DESC& out) {
  Ptr<IDMLOperatorInitializer> initializer;
  Check(f.device->CreateOperatorInitializer(1, &op, IID_PPV_ARGS(&initializer)), "initializer");
  f.Reset(initializer.get());
  f.table->BindInputs(1, &in);
  f.table->BindOutputs(1, &out);
  f.Record(initializer.get());
}

void Initializers() {
  const auto initialize = [](Fixture& f, const DML_BINDING_DESC& in, const DML_BINDING_DESC& out) {
    InitializeWith(f, f.norm.get(), in, out);
  };
  const Memory memory(512, 0);
  const DML_BUFFER_BINDING scale = memory.buffer_binding();
  const DML_BUFFER_BINDING right[] = {{}, scale, {}}, wrong[] = {scale, scale, {}};
  const DML_BUFFER_ARRAY_BINDING rightArray = {3, right}, shortArray = {2, right};
  const DML_BUFFER_ARRAY_BINDING wrongArray = {3, wrong};
  const DML_BINDING_DESC good = {DML_BINDING_TYPE_BUFFER_ARRAY, &rightArray};
  Removed("owned input missing", [&](Fixture& f) { initialize(f, {}, f.persistent.binding()); });
  Removed("array too short", [&](Fixture& f) {
    initialize(f, {DML_BINDING_TYPE_BUFFER_ARRAY, &shortArray}, f.persistent.binding());
  });
  Removed("input that is not owned", [&](Fixture& f) {
    initialize(f, {DML_BINDING_TYPE_BUFFER_ARRAY, &wrongArray}, f.persistent.binding());
  });
  Removed("no room to keep it", [&](Fixture& f) { initialize(f, good, {}); });
  Removed("kept where it comes from", [&](Fixture& f) { initialize(f, good, memory.binding()); });
  Removed("operator that owns nothing",
          [&](Fixture& f) { InitializeWith(f, f.pool.get(), good, {}); });
  Removed("reset to more operators", [&](Fixture& f) {
    IDMLCompiledOperator* ops[] = {f.pool.get(), f.norm.get()};
    Ptr<IDMLOperatorInitializer> initializer;
    Check(f.device->CreateOperatorInitializer(1, ops, IID_PPV_ARGS(&initializer)), "initializer");
    f.Reset(initializer.get());
    const DML_BINDING_DESC none = {};
    f.table->BindInputs(1, &none);
    Check(initializer->Reset(2, ops), "Reset");
    f.Record(initializer.get());
  });
}

void AfterRemoval() {
  Fixture f;
  Ptr<IDMLOperator> op;
  Ptr<IDMLDevice> device;
  f.table->BindInputs(1, nullptr);
  const DML_OPERATOR_DESC right = {DML_OPERATOR_MAX_POOLING1, &f.pooling};
  Say("create after removal", f.device->CreateOperator(&right, IID_PPV_ARGS(&op)));
  Say("reset after removal", f.table->Reset(nullptr));
  f.BindPool();
  f.Record(f.pool.get());
  std::thread([&] { Say("reason in another thread", f.device->GetDeviceRemovedReason()); }).join();
  Say("interface after removal", f.pool->GetDevice(IID_PPV_ARGS(&device)));
  Say("name after removal", f.pool->SetName(L"pool"));
}

}  // namespace

int main() {
  Devices();
  Features();
  Operators();
  Compilation();
  OutPointers();
  Inputs();
  OutputsAndResources();
  Dispatches();
  Initializers();
  AfterRemoval();
}
