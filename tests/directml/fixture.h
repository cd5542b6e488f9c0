// A device of the CPU with operators and right bindings, for misuse.cpp to get one thing wrong.
#pragma once

#include "com_support.h"

constexpr UINT kSizes[] = {1, 2, 4, 4}, kPooled[] = {1, 2, 2, 2}, kTwo[] = {2, 2}, kNone[] = {0, 0};
constexpr UINT64 kBytes = 128, kPooledBytes = 32;

struct TensorDesc {
  TensorDesc(const UINT* sizes, UINT64 bytes, DML_TENSOR_FLAGS flags = DML_TENSOR_FLAG_NONE)
      : buffer{DML_TENSOR_DATA_TYPE_FLOAT32, flags, 4, sizes, nullptr, bytes, 0},
        desc{DML_TENSOR_TYPE_BUFFER, &buffer} {}
  DML_BUFFER_TENSOR_DESC buffer;
  DML_TENSOR_DESC desc;
};

/// A device with operators: a max pooling, a gradient that needs a workspace, a normalization whose
/// scale the operator owns.
struct Fixture {
  explicit Fixture(bool is_initialized = true) {
    Check(DMLCreateDevice(&kCpu, DML_CREATE_DEVICE_FLAG_NONE, IID_PPV_ARGS(&device)), "device");
    Check(device->CreateCommandRecorder(IID_PPV_ARGS(&recorder)), "recorder");
    Create(DML_OPERATOR_MAX_POOLING1, &pooling, poolingOperator, pool);
    Create(DML_OPERATOR_MAX_POOLING_GRAD, &gradient, gradientOperator, grad);
    Create(DML_OPERATOR_MEAN_VARIANCE_NORMALIZATION, &mvn, mvnOperator, norm);
    Reset(pool.get());
    if (is_initialized) Initialize();
  }

  void Create(DML_OPERATOR_TYPE type, const void* desc, Ptr<IDMLOperator>& op,
              Ptr<IDMLCompiledOperator>& compiled) {
    const DML_OPERATOR_DESC operatorDesc = {type, desc};
    Check(device->CreateOperator(&operatorDesc, IID_PPV_ARGS(&op)), "CreateOperator");
    Check(device->CompileOperator(op.get(), DML_EXECUTION_FLAG_NONE, IID_PPV_ARGS(&compiled)),
          "CompileOperator");
  }

  void Initialize() {
    IDMLCompiledOperator* all[] = {pool.get(), grad.get(), norm.get()};
    Ptr<IDMLOperatorInitializer> initializer;
    Check(device->CreateOperatorInitializer(3, all, IID_PPV_ARGS(&initializer)), "initializer");
    Reset(initializer.get());
    const DML_BUFFER_BINDING owned[] = {{}, scale.buffer_binding(), {}};
    const DML_BUFFER_ARRAY_BINDING array = {3, owned};
    const DML_BINDING_DESC inputs[] = {{}, {}, {DML_BINDING_TYPE_BUFFER_ARRAY, &array}};
    const DML_BINDING_DESC outputs[] = {{}, {}, persistent.binding()};
    table->BindInputs(3, inputs);
    table->BindOutputs(3, outputs);
    recorder->RecordDispatch(nullptr, initializer.get(), table.get());
    Check(device->GetDeviceRemovedReason(), "initialization");
    Reset(pool.get());
  }

  void Reset(IDMLDispatchable* dispatchable) {
    const DML_BINDING_TABLE_DESC desc = {dispatchable, 0};
    if (table.get())
      Check(table->Reset(&desc), "Reset");
    else
      Check(device->CreateBindingTable(&desc, IID_PPV_ARGS(&table)), "CreateBindingTable");
  }

  /// Bindings of the max pooling, right as they stand.
  void BindPool() {
    const DML_BINDING_DESC in = input.binding(), out[] = {output.binding(), {}};
    table->BindInputs(1, &in);
    table->BindOutputs(2, out);
  }

  void Record(IDMLDispatchable* dispatchable) {
    recorder->RecordDispatch(nullptr, dispatchable, table.get());
  }

  TensorDesc x{kSizes, kBytes}, y{kPooled, kPooledBytes};
  TensorDesc ownedScale{kSizes, kBytes, DML_TENSOR_FLAG_OWNED_BY_DML};
  DML_MAX_POOLING1_OPERATOR_DESC pooling = {&x.desc, &y.desc, nullptr, 2, kTwo, kTwo, kNone, kNone};
  DML_MAX_POOLING_GRAD_OPERATOR_DESC gradient = {&x.desc, &y.desc, &x.desc, 2,   kTwo,
                                                 kTwo,    kNone,   kNone,   kTwo};
  DML_MEAN_VARIANCE_NORMALIZATION_OPERATOR_DESC mvn = {
      &x.desc, &ownedScale.desc, nullptr, &x.desc, FALSE, TRUE, 1e-5f, nullptr};
  Ptr<IDMLDevice> device;
  Ptr<IDMLCommandRecorder> recorder;
  Ptr<IDMLOperator> poolingOperator, gradientOperator, mvnOperator;
  Ptr<IDMLCompiledOperator> pool, grad, norm;
  Ptr<IDMLBindingTable> table;
  Memory input{kBytes, 0}, output{kPooledBytes, 16}, scale{kBytes, 0}, persistent{256, 0};
};
