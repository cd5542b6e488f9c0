// DirectML's interfaces, in C++; DirectML.h includes them. In the place of Direct3D's objects stand
// a device's name, plain memory and a CUDA stream: docs/porting.md has the list.
#pragma once

#include "DirectML.h"

#ifdef __cplusplus

#ifndef CUDML_API
#define CUDML_API __attribute__((visibility("default")))
#endif

struct IDMLCompiledOperator;
struct IDMLDispatchable;
struct IDMLOperator;
struct IDMLPageable;

// In the places of ID3D12Device, ID3D12Resource and ID3D12CommandList.

enum CUDML_DEVICE_TYPE : INT {
  CUDML_DEVICE_TYPE_CPU = 0,
  CUDML_DEVICE_TYPE_CUDA = 1,
};

/// Where a device works. Ordinal is the number of a CUDA device, 0 of the CPU.
struct CUDML_DEVICE_DESC {
  CUDML_DEVICE_TYPE Type;
  UINT Ordinal;
};

/// Memory of the device: of the host for the CPU. It is the caller's and is not kept alive.
struct CUDML_BUFFER {
  void* Data;
  UINT64 SizeInBytes;
};

/// A cudaStream_t. Null is the legacy default stream, and the only one of the CPU.
typedef void* CUDML_STREAM;

enum DML_FEATURE : INT {
  DML_FEATURE_TENSOR_DATA_TYPE_SUPPORT = 0,
  DML_FEATURE_FEATURE_LEVELS = 1,
};

struct DML_FEATURE_QUERY_TENSOR_DATA_TYPE_SUPPORT {
  DML_TENSOR_DATA_TYPE DataType;
};

struct DML_FEATURE_DATA_TENSOR_DATA_TYPE_SUPPORT {
  BOOL IsSupported;
};

struct DML_FEATURE_QUERY_FEATURE_LEVELS {
  UINT RequestedFeatureLevelCount;
  const DML_FEATURE_LEVEL* RequestedFeatureLevels;
};

struct DML_FEATURE_DATA_FEATURE_LEVELS {
  DML_FEATURE_LEVEL MaxSupportedFeatureLevel;
};

enum DML_EXECUTION_FLAGS : INT {
  DML_EXECUTION_FLAG_NONE = 0x0,
  DML_EXECUTION_FLAG_ALLOW_HALF_PRECISION_COMPUTATION = 0x1,
  DML_EXECUTION_FLAG_DISABLE_META_COMMANDS = 0x2,
  DML_EXECUTION_FLAG_DESCRIPTORS_VOLATILE = 0x4,
};
DEFINE_ENUM_FLAG_OPERATORS(DML_EXECUTION_FLAGS)

enum DML_CREATE_DEVICE_FLAGS : INT {
  DML_CREATE_DEVICE_FLAG_NONE = 0x0,
  DML_CREATE_DEVICE_FLAG_DEBUG = 0x1,  // messages of failures go to standard error
};
DEFINE_ENUM_FLAG_OPERATORS(DML_CREATE_DEVICE_FLAGS)

/// Without handles of descriptors; SizeInDescriptors is not looked at.
struct DML_BINDING_TABLE_DESC {
  IDMLDispatchable* Dispatchable;
  UINT SizeInDescriptors;
};

struct DML_BINDING_PROPERTIES {
  UINT RequiredDescriptorCount;  // always 0
  UINT64 TemporaryResourceSize;
  UINT64 PersistentResourceSize;
};

enum DML_BINDING_TYPE : INT {
  DML_BINDING_TYPE_NONE = 0,
  DML_BINDING_TYPE_BUFFER = 1,
  DML_BINDING_TYPE_BUFFER_ARRAY = 2,
};

/// Points to a DML_BUFFER_BINDING or a DML_BUFFER_ARRAY_BINDING, or to nothing.
struct DML_BINDING_DESC {
  DML_BINDING_TYPE Type;
  const void* Desc;
};

/// A null Buffer binds nothing.
struct DML_BUFFER_BINDING {
  const CUDML_BUFFER* Buffer;
  UINT64 Offset;
  UINT64 SizeInBytes;
};

struct DML_BUFFER_ARRAY_BINDING {
  UINT BindingCount;
  const DML_BUFFER_BINDING* Bindings;
};

struct IDMLObject : IUnknown {
  virtual HRESULT GetPrivateData(REFGUID guid, UINT* dataSize, void* data) = 0;
  virtual HRESULT SetPrivateData(REFGUID guid, UINT dataSize, const void* data) = 0;
  virtual HRESULT SetPrivateDataInterface(REFGUID guid, IUnknown* data) = 0;
  virtual HRESULT SetName(PCWSTR name) = 0;
};

struct IDMLDevice : IDMLObject {
  virtual HRESULT CheckFeatureSupport(DML_FEATURE feature, UINT featureQueryDataSize,
                                      const void* featureQueryData, UINT featureSupportDataSize,
                                      void* featureSupportData) = 0;
  virtual HRESULT CreateOperator(const DML_OPERATOR_DESC* desc, REFIID riid, void** ppv) = 0;
  virtual HRESULT CompileOperator(IDMLOperator* op, DML_EXECUTION_FLAGS flags, REFIID riid,
                                  void** ppv) = 0;
  virtual HRESULT CreateOperatorInitializer(UINT operatorCount,
                                            IDMLCompiledOperator* const* operators, REFIID riid,
                                            void** ppv) = 0;
  virtual HRESULT CreateCommandRecorder(REFIID riid, void** ppv) = 0;
  virtual HRESULT CreateBindingTable(const DML_BINDING_TABLE_DESC* desc, REFIID riid,
                                     void** ppv) = 0;
  virtual HRESULT Evict(UINT count, IDMLPageable* const* ppObjects) = 0;
  virtual HRESULT MakeResident(UINT count, IDMLPageable* const* ppObjects) = 0;
  virtual HRESULT GetDeviceRemovedReason() = 0;
};

struct IDMLDeviceChild : IDMLObject {
  virtual HRESULT GetDevice(REFIID riid, void** ppv) = 0;
};

struct IDMLPageable : IDMLDeviceChild {};

struct IDMLOperator : IDMLDeviceChild {};

struct IDMLDispatchable : IDMLPageable {
  virtual DML_BINDING_PROPERTIES GetBindingProperties() = 0;
};

struct IDMLCompiledOperator : IDMLDispatchable {};

struct IDMLOperatorInitializer : IDMLDispatchable {
  virtual HRESULT Reset(UINT operatorCount, IDMLCompiledOperator* const* operators) = 0;
};

struct IDMLBindingTable : IDMLDeviceChild {
  virtual void BindInputs(UINT bindingCount, const DML_BINDING_DESC* bindings) = 0;
  virtual void BindOutputs(UINT bindingCount, const DML_BINDING_DESC* bindings) = 0;
  virtual void BindTemporaryResource(const DML_BINDING_DESC* binding) = 0;
  virtual void BindPersistentResource(const DML_BINDING_DESC* binding) = 0;
  virtual HRESULT Reset(const DML_BINDING_TABLE_DESC* desc) = 0;
};

struct IDMLCommandRecorder : IDMLDeviceChild {
  virtual void RecordDispatch(CUDML_STREAM stream, IDMLDispatchable* dispatchable,
                              IDMLBindingTable* bindings) = 0;
};

#define CUDML_DECLARE_UUID(Interface, a, b, c, ...) \
  template <>                                       \
  constexpr GUID uuidof<Interface>() {              \
    return {a, b, c, {__VA_ARGS__}};                \
  }
// clang-format off
CUDML_DECLARE_UUID(IDMLObject, 0xc8263aac, 0x9e0c, 0x4a2d, 0x9b, 0x8e, 0x00, 0x75, 0x21, 0xa3, 0x31, 0x7c)
CUDML_DECLARE_UUID(IDMLDevice, 0x6dbd6437, 0x96fd, 0x423f, 0xa9, 0x8c, 0xae, 0x5e, 0x7c, 0x2a, 0x57, 0x3f)
CUDML_DECLARE_UUID(IDMLDeviceChild, 0x27e83142, 0x8165, 0x49e3, 0x97, 0x4e, 0x2f, 0xd6, 0x6e, 0x4c, 0xb6, 0x9d)
CUDML_DECLARE_UUID(IDMLPageable, 0xb1ab0825, 0x4542, 0x4a4b, 0x86, 0x17, 0x6d, 0xde, 0x6e, 0x8f, 0x62, 0x01)
CUDML_DECLARE_UUID(IDMLOperator, 0x26caae7a, 0x3081, 0x4633, 0x95, 0x81, 0x22, 0x6f, 0xbe, 0x57, 0x69, 0x5d)
CUDML_DECLARE_UUID(IDMLDispatchable, 0xdcb821a8, 0x1039, 0x441e, 0x9f, 0x1c, 0xb1, 0x75, 0x9c, 0x2f, 0x3c, 0xec)
CUDML_DECLARE_UUID(IDMLCompiledOperator, 0x6b15e56a, 0xbf5c, 0x4902, 0x92, 0xd8, 0xda, 0x3a, 0x65, 0x0a, 0xfe, 0xa4)
CUDML_DECLARE_UUID(IDMLOperatorInitializer, 0x427c1113, 0x435c, 0x469c, 0x86, 0x76, 0x4d, 0x5d, 0xd0, 0x72, 0xf8, 0x13)
CUDML_DECLARE_UUID(IDMLBindingTable, 0x29c687dc, 0xde74, 0x4e3b, 0xab, 0x00, 0x11, 0x68, 0xf2, 0xfc, 0x3c, 0xfc)
CUDML_DECLARE_UUID(IDMLCommandRecorder, 0xe6857a76, 0x2e3e, 0x4fdd, 0xbf, 0xf4, 0x5d, 0x2b, 0xa1, 0x0f, 0xb4, 0x53)
// clang-format on
#undef CUDML_DECLARE_UUID

extern "C" {

/// riid is IDMLDevice's. Operators take what feature level 6_4 takes.
CUDML_API HRESULT DMLCreateDevice(const CUDML_DEVICE_DESC* device, DML_CREATE_DEVICE_FLAGS flags,
                                  REFIID riid, void** ppv);

/// The same, refused with DXGI_ERROR_UNSUPPORTED above feature level 6_4.
CUDML_API HRESULT DMLCreateDevice1(const CUDML_DEVICE_DESC* device, DML_CREATE_DEVICE_FLAGS flags,
                                   DML_FEATURE_LEVEL minimumFeatureLevel, REFIID riid, void** ppv);
}

#endif  // __cplusplus
