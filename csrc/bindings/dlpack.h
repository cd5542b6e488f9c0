// The structs of DLPack that an importer reads; their layout is frozen within major version 1.
#pragma once

#include <cstdint>

namespace cudml::bindings::dlpack {

enum DeviceType : int32_t { kCpu = 1, kCuda = 2, kCudaHost = 3, kCudaManaged = 13 };
enum TypeCode : uint8_t { kInt = 0, kUint = 1, kFloat = 2, kBfloat = 4, kComplex = 5, kBool = 6 };
enum Flag : uint64_t { kReadOnly = 1, kIsCopied = 2 };

inline constexpr uint32_t kMajorVersion = 1;

struct Device {
  int32_t type, id;
};

struct DataType {
  uint8_t code, bits;
  uint16_t lanes;
};

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

}  // namespace cudml::bindings::dlpack
