// The structs of DLPack that an importer reads; their layout is frozen within major version 1.
#pragma once

#include <cstdint>

#include "core/dtype.h"

namespace cudml::bindings::dlpack {

enum DeviceType : int32_t { kCpu = 1, kCuda = 2, kCudaHost = 3, kCudaManaged = 13 };
enum TypeCode : uint8_t { kInt = 0, kUint = 1, kFloat = 2, kBfloat = 4, kComplex = 5, kBool = 6 };
enum Flag : uint64_t { kReadOnly = 1, kIsCopied = 2 };

inline constexpr uint32_t kMajorVersion = 1, kMinorVersion = 3;

struct Device {
  int32_t type, id;
};

struct DataType {
  uint8_t code, bits;
  uint16_t lanes;
};

inline DataType type_of(Dtype dtype) {
  const uint8_t code = dtype == Dtype::bfloat16 ? kBfloat
                       : is_float(dtype)        ? kFloat
                       : dtype >= Dtype::int8   ? kInt
                                                : kUint;
  return {code, uint8_t(8 * size_of(dtype)), 1};
}

struct Tensor {
  void* data;
  Device device;
  int32_t ndim;
  DataType dtype;
  int64_t* shape;
  int64_t* strides;  // in elements; null means packed
  uint64_t byte_offset;
};

/// What a capsule named "dltensor" holds.
struct Managed {
  static constexpr const char *kName = "dltensor", *kUsedName = "used_dltensor";
  Tensor tensor;
  void* manager;
  void (*deleter)(Managed*);
};

/// What a capsule named "dltensor_versioned" holds.
struct ManagedVersioned {
  static constexpr const char *kName = "dltensor_versioned", *kUsedName = "used_dltensor_versioned";
  uint32_t major, minor;
  void* manager;
  void (*deleter)(ManagedVersioned*);
  uint64_t flags;
  Tensor tensor;
};

/// Functions that a type of arrays offers to C, in a capsule named kCapsuleName that is the type's
/// attribute. All give 0, or another number and Python's error; none orders streams.
struct ExchangeTable {
  static constexpr const char* kCapsuleName = "dlpack_exchange_api";
  static constexpr const char* kAttributes[] = {"__dlpack_c_exchange_api__",   // from 1.3 on
                                                "__c_dlpack_exchange_api__"};  // 1.2
  uint32_t major, minor;
  ExchangeTable* previous;  // of an older major version
  int (*allocate)(Tensor* prototype, ManagedVersioned** out, void* context,
                  void (*set_error)(void* context, const char* kind, const char* message));
  int (*export_managed)(void* object, ManagedVersioned** out);
  int (*import_managed)(ManagedVersioned* tensor, void** out);
  int (*borrow)(void* object, Tensor* out);  // valid while the object is; may be null
  int (*current_stream)(int32_t device_type, int32_t device, void** out);
};

}  // namespace cudml::bindings::dlpack
