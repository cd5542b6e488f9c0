// Reference counts, interfaces, private data and states of DirectML's objects: prints a line for
// whatever is not as it should be, and "done".
#include "com_support.h"

#include <algorithm>
#include <cstring>
#include <cwchar>
#include <string>
#include <thread>
#include <vector>

namespace {

#define EXPECT(condition) \
  if (!(condition)) std::printf("line %d: %s\n", __LINE__, #condition)

constexpr UINT kSizes[] = {1, 1, 2, 2}, kOne[] = {1, 1}, kNone[] = {0, 0};

struct Objects {
  Objects() {
    const DML_BUFFER_TENSOR_DESC buffer = {
        DML_TENSOR_DATA_TYPE_FLOAT32, {}, 4, kSizes, nullptr, 16, 0};
    const DML_TENSOR_DESC tensor = {DML_TENSOR_TYPE_BUFFER, &buffer};
    const DML_MAX_POOLING_OPERATOR_DESC pooling = {&tensor, &tensor, 2, kOne, kOne, kNone, kNone};
    const DML_OPERATOR_DESC desc = {DML_OPERATOR_MAX_POOLING, &pooling};
    Check(DMLCreateDevice(&kCpu, DML_CREATE_DEVICE_FLAG_NONE, IID_PPV_ARGS(&device)), "device");
    Check(device->CreateOperator(&desc, IID_PPV_ARGS(&op)), "operator");
    Check(device->CompileOperator(op.get(), {}, IID_PPV_ARGS(&compiled)), "compiled");
    IDMLCompiledOperator* const operators[] = {compiled.get()};
    Check(device->CreateOperatorInitializer(1, operators, IID_PPV_ARGS(&initializer)),
          "initializer");
    const DML_BINDING_TABLE_DESC tableDesc = {compiled.get(), 0};
    Check(device->CreateBindingTable(&tableDesc, IID_PPV_ARGS(&table)), "table");
    Check(device->CreateCommandRecorder(IID_PPV_ARGS(&recorder)), "recorder");
  }

  Ptr<IDMLDevice> device;
  Ptr<IDMLOperator> op;
  Ptr<IDMLCompiledOperator> compiled;
  Ptr<IDMLOperatorInitializer> initializer;
  Ptr<IDMLBindingTable> table;
  Ptr<IDMLCommandRecorder> recorder;
};

ULONG CountOf(IUnknown* object) {
  object->AddRef();
  return object->Release();
}

/// Whether an object answers to each interface, in the order of kInterfaces, as 0s and 1s.
std::string AnswersOf(IUnknown* object) {
  const GUID interfaces[] = {
      __uuidof(IUnknown),         __uuidof(IDMLObject),           __uuidof(IDMLDeviceChild),
      __uuidof(IDMLPageable),     __uuidof(IDMLDispatchable),     __uuidof(IDMLDevice),
      __uuidof(IDMLOperator),     __uuidof(IDMLCompiledOperator), __uuidof(IDMLOperatorInitializer),
      __uuidof(IDMLBindingTable), __uuidof(IDMLCommandRecorder)};
  const ULONG before = CountOf(object);
  std::string answers;
  for (const GUID& iid : interfaces) {
    void* found = &answers;
    const HRESULT result = object->QueryInterface(iid, &found);
    answers += result == S_OK ? '1' : '0';
    EXPECT(result == (found ? S_OK : E_NOINTERFACE));
    if (found) EXPECT(found == object && static_cast<IUnknown*>(found)->Release() == before);
  }
  EXPECT(CountOf(object) == before);
  return answers;
}

void Interfaces() {
  Objects o;
  EXPECT(AnswersOf(o.device.get()) == "11000100000");
  EXPECT(AnswersOf(o.op.get()) == "11100010000");
  EXPECT(AnswersOf(o.compiled.get()) == "11111001000");
  EXPECT(AnswersOf(o.initializer.get()) == "11111000100");
  EXPECT(AnswersOf(o.table.get()) == "11100000010");
  EXPECT(AnswersOf(o.recorder.get()) == "11100000001");
  // IDMLDevice1 compiles graphs, IDMLDebugDevice mutes the debug layer; GUID_NULL is nobody's.
  const GUID foreign[] = {
      {0xa0884f9a, 0xd2be, 0x4355, {0xaa, 0x5d, 0x59, 0x01, 0x28, 0x1a, 0xd1, 0xd2}},
      {0x7d6f3ac9, 0x394a, 0x4ac3, {0x92, 0xa7, 0x39, 0x0c, 0xc5, 0x7a, 0x82, 0x17}},
      {}};
  for (const GUID& iid : foreign) {
    void* found = &o;
    EXPECT(o.device->QueryInterface(iid, &found) == E_NOINTERFACE && !found);
  }
  EXPECT(o.device->QueryInterface(__uuidof(IDMLDevice), nullptr) == E_POINTER);
  EXPECT(o.op->GetDevice(__uuidof(IDMLDevice), nullptr) == E_POINTER);
  Ptr<IDMLOperator> op;
  EXPECT(o.table->GetDevice(IID_PPV_ARGS(&op)) == E_NOINTERFACE && !op.get());
  Ptr<IDMLDevice> device;
  EXPECT(o.table->GetDevice(IID_PPV_ARGS(&device)) == S_OK && device.get() == o.device.get());
  Ptr<IDMLDispatchable> dispatchable;
  EXPECT(o.compiled->QueryInterface(&dispatchable) == S_OK);
  EXPECT(dispatchable.get() == o.compiled.get());
}

void Counts() {
  Objects o;
  EXPECT(CountOf(o.op.get()) == 1);
  EXPECT(o.op->AddRef() == 2 && o.op->Release() == 1);
  EXPECT(CountOf(o.device.get()) == 6);    // five children and its owner
  EXPECT(CountOf(o.compiled.get()) == 3);  // the initializer, the table, its owner
  const DML_BINDING_TABLE_DESC desc = {o.initializer.get(), 0};
  Check(o.table->Reset(&desc), "Reset");
  EXPECT(CountOf(o.compiled.get()) == 2 && CountOf(o.initializer.get()) == 2);
  Check(o.initializer->Reset(0, nullptr), "Reset");
  EXPECT(CountOf(o.compiled.get()) == 1);
  o.initializer.Clear();
  IDMLDevice* const device = o.device.get();
  o.device.Clear();
  Ptr<IDMLDevice> again;
  EXPECT(o.table->GetDevice(IID_PPV_ARGS(&again)) == S_OK && again.get() == device);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 20000; ++i) device->AddRef(), device->Release();
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT(CountOf(device) == 6);  // four children, the initializer in the table, again
}

void PrivateData() {
  Objects o;
  const GUID key = {1, 2, 3, {4}}, other = {1, 2, 3, {5}};
  char data[8] = {};
  UINT size = sizeof data;
  EXPECT(o.op->GetPrivateData(key, &size, data) == DXGI_ERROR_NOT_FOUND && size == 0);
  EXPECT(o.op->GetPrivateData(key, nullptr, data) == E_POINTER);
  EXPECT(o.op->SetPrivateData(key, 6, "hello") == S_OK);
  EXPECT(o.op->GetPrivateData(key, &size, nullptr) == S_OK && size == 6);
  size = 5;
  EXPECT(o.op->GetPrivateData(key, &size, data) == DXGI_ERROR_MORE_DATA && size == 6 && !data[0]);
  EXPECT(o.op->GetPrivateData(key, &size, data) == S_OK && !std::strcmp(data, "hello"));
  EXPECT(o.op->SetPrivateData(key, 0, nullptr) == S_OK);
  EXPECT(o.op->GetPrivateData(key, &size, data) == DXGI_ERROR_NOT_FOUND);

  IDMLCommandRecorder* const kept = o.recorder.get();
  EXPECT(o.op->SetPrivateDataInterface(key, kept) == S_OK && CountOf(kept) == 2);
  IUnknown* found = nullptr;
  size = sizeof found;
  EXPECT(o.op->GetPrivateData(key, &size, &found) == S_OK && found == kept && CountOf(kept) == 3);
  found->Release();
  EXPECT(o.op->SetPrivateData(other, 1, "x") == S_OK && CountOf(kept) == 2);
  EXPECT(o.op->SetPrivateData(key, 1, "x") == S_OK && CountOf(kept) == 1);
  EXPECT(o.op->SetPrivateDataInterface(other, kept) == S_OK);
  o.op.Clear();
  EXPECT(CountOf(kept) == 1);

  const GUID name = {0x4cca5fd8, 0x921f, 0x42c8, {0x85, 0x66, 0x70, 0xca, 0xf2, 0xa9, 0xb7, 0x41}};
  wchar_t read[8] = {};
  size = sizeof read;
  EXPECT(o.device->SetName(L"first") == S_OK && o.device->SetName(L"pool") == S_OK);
  EXPECT(o.device->GetPrivateData(name, &size, read) == S_OK && !std::wcscmp(read, L"pool"));
  EXPECT(size == 4 * sizeof(wchar_t));
  EXPECT(o.device->SetName(nullptr) == S_OK);
  EXPECT(o.device->GetPrivateData(name, &size, read) == DXGI_ERROR_NOT_FOUND);
}

bool Says(const char* words) { return std::strstr(cudml_last_error(), words) != nullptr; }

void Initialize(Objects& o, CUDML_STREAM stream = nullptr) {
  const DML_BINDING_TABLE_DESC desc = {o.initializer.get(), 0};
  Check(o.table->Reset(&desc), "Reset");
  o.recorder->RecordDispatch(stream, o.initializer.get(), o.table.get());
}

/// Of no operators: nothing has to be bound, and what has no place may be bound.
void Nothing() {
  Objects o;
  Check(o.initializer->Reset(0, nullptr), "Reset");
  const DML_BINDING_TABLE_DESC desc = {o.initializer.get(), 0};
  Check(o.table->Reset(&desc), "Reset");
  o.table->BindInputs(0, nullptr);
  o.table->BindOutputs(0, nullptr);
  o.recorder->RecordDispatch(nullptr, o.initializer.get(), o.table.get());
  EXPECT(o.device->GetDeviceRemovedReason() == S_OK);
  Check(o.device->Evict(0, nullptr), "Evict");
}

/// A table forgets its bindings when it is reset, and a removed device does nothing more.
void Resets() {
  Objects o;
  Initialize(o);
  const DML_BINDING_TABLE_DESC desc = {o.compiled.get(), 0};
  Memory input(16, 0), output(16, 0);
  auto *x = static_cast<float*>(input.data()), *y = static_cast<float*>(output.data());
  const auto bind_and_record = [&](float number) {
    const DML_BINDING_DESC in = input.binding(), out = output.binding();
    std::fill_n(x, 4, number);
    o.table->BindInputs(1, &in);
    o.table->BindOutputs(1, &out);
    o.recorder->RecordDispatch(nullptr, o.compiled.get(), o.table.get());
  };
  Check(o.table->Reset(&desc), "Reset");
  bind_and_record(3);
  EXPECT(y[0] == 3 && y[3] == 3);
  std::fill_n(x, 4, 4.0f);
  o.recorder->RecordDispatch(nullptr, o.compiled.get(), o.table.get());  // bindings stay
  EXPECT(y[0] == 4 && o.device->GetDeviceRemovedReason() == S_OK);
  Check(o.table->Reset(&desc), "Reset");
  o.recorder->RecordDispatch(nullptr, o.compiled.get(), o.table.get());
  EXPECT(o.device->GetDeviceRemovedReason() == E_INVALIDARG && Says("bindingCount is 0"));
  bind_and_record(5);
  EXPECT(y[0] == 4 && y[3] == 4);
}

/// The CPU has no streams, for initializers neither.
void Streams() {
  Objects o;
  Initialize(o, &o);
  EXPECT(o.device->GetDeviceRemovedReason() == E_INVALIDARG && Says("on the CPU it must be null"));
}

/// One device and one operator, a table and memory for each thread.
void Threads() {
  Objects o;
  Initialize(o);
  const auto work = [&](float number) {
    const DML_BINDING_TABLE_DESC desc = {o.compiled.get(), 0};
    for (int i = 0; i < 200; ++i) {
      const Memory input(16, 0), output(16, 16);
      std::fill_n(static_cast<float*>(input.data()), 4, number + float(i));
      const DML_BINDING_DESC in = input.binding(), out = output.binding();
      Ptr<IDMLBindingTable> table;
      EXPECT(o.device->CreateBindingTable(&desc, IID_PPV_ARGS(&table)) == S_OK);
      table->BindInputs(1, &in);
      table->BindOutputs(1, &out);
      o.recorder->RecordDispatch(nullptr, o.compiled.get(), table.get());
      EXPECT(static_cast<float*>(output.data())[3] == number + float(i));
    }
  };
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) threads.emplace_back(work, float(1000 * t));
  for (std::thread& thread : threads) thread.join();
  EXPECT(o.device->GetDeviceRemovedReason() == S_OK);
}

/// Several threads remove a device at once: all see one reason and one message.
void Removals() {
  Objects o;
  std::vector<std::thread> threads;
  std::string messages[4];
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      Ptr<IDMLBindingTable> table;
      const DML_BINDING_TABLE_DESC desc = {o.compiled.get(), 0};
      if (o.device->CreateBindingTable(&desc, IID_PPV_ARGS(&table)) == S_OK)
        table->BindInputs(UINT(t + 2), nullptr);
      EXPECT(o.device->GetDeviceRemovedReason() == E_INVALIDARG);
      messages[t] = cudml_last_error();
    });
  for (std::thread& thread : threads) thread.join();
  for (const std::string& message : messages) EXPECT(!message.empty() && message == messages[0]);
}

}  // namespace

int main() {
  Interfaces();
  Counts();
  PrivateData();
  Nothing();
  Resets();
  Streams();
  Threads();
  Removals();
  std::puts("done");
}
