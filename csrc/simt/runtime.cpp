// The CUDA runtime's functions that the library calls, for one device that is the executor.
// Streams and events do nothing: every call has ended its work when it returns.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>

#include "executor.h"
#include "sanitizers.h"

namespace cudml::simt {
namespace {

constexpr size_t kAlignment = 256, kMemory = size_t{8} << 30;
constexpr int kMultiprocessors = 4;

struct Allocation {
  char* raw = nullptr;
  size_t bytes = 0, raw_bytes = 0;
};

std::mutex lock;
std::map<char*, Allocation> allocations;
std::map<const void*, int> opted_in;  // dynamic shared bytes of each kernel
thread_local cudaError_t last_error = cudaSuccess;

/// Exactly `bytes` bytes of 0xFF that only they may be touched of.
cudaError_t allocate(void** p, size_t bytes) {
  *p = nullptr;
  if (bytes == 0) return cudaSuccess;
  if (bytes > kMemory) return set_last_error(cudaErrorMemoryAllocation);
  Allocation made;
  made.bytes = bytes;
  made.raw_bytes = kAlignment + (bytes + 2 * kAlignment - 1) / kAlignment * kAlignment;
  made.raw = static_cast<char*>(std::aligned_alloc(kAlignment, made.raw_bytes));
  if (!made.raw) return set_last_error(cudaErrorMemoryAllocation);
  char* first = made.raw + kAlignment;
  std::memset(first, 0xff, bytes);
  poison(made.raw, kAlignment);
  poison(first + bytes, made.raw_bytes - kAlignment - bytes);
  const std::lock_guard<std::mutex> guard(lock);
  allocations[first] = made;
  *p = first;
  return cudaSuccess;
}

cudaError_t release(void* p) {
  if (!p) return cudaSuccess;
  const std::lock_guard<std::mutex> guard(lock);
  const auto found = allocations.find(static_cast<char*>(p));
  if (found == allocations.end()) return set_last_error(cudaErrorInvalidValue);
  unpoison(found->second.raw, found->second.raw_bytes);
  std::free(found->second.raw);
  allocations.erase(found);
  return cudaSuccess;
}

cudaError_t check_device(int device) {
  return device == 0 ? cudaSuccess : set_last_error(cudaErrorInvalidDevice);
}

}  // namespace

cudaError_t set_last_error(cudaError_t error) { return last_error = error; }

cudaError_t check_dynamic_shared(const void* kernel, size_t bytes) {
  const std::lock_guard<std::mutex> guard(lock);
  const auto found = opted_in.find(kernel);
  const size_t most = found == opted_in.end() ? kMostStaticShared : size_t(found->second);
  return bytes <= most ? cudaSuccess : cudaErrorInvalidValue;
}

}  // namespace cudml::simt

using namespace cudml::simt;

extern "C" {

cudaError_t cudaGetDeviceCount(int* count) {
  *count = 1;
  return cudaSuccess;
}
cudaError_t cudaGetDevice(int* device) {
  *device = 0;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) { return check_device(device); }
cudaError_t cudaDeviceSynchronize() { return cudaSuccess; }
cudaError_t cudaDriverGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int* version) { return cudaDriverGetVersion(version); }

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  *properties = {};
  std::snprintf(properties->name, sizeof properties->name, "host SIMT executor");
  properties->major = 9;
  properties->totalGlobalMem = kMemory;
  properties->multiProcessorCount = kMultiprocessors;
  properties->sharedMemPerBlock = kMostStaticShared;
  properties->sharedMemPerBlockOptin = kMostShared;
  properties->warpSize = kWarp;
  properties->maxThreadsPerBlock = kMostThreads;
  properties->l2CacheSize = 4 << 20;
  return check_device(device);
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  switch (attribute) {
    case cudaDevAttrComputeCapabilityMajor: *value = 9; break;
    case cudaDevAttrComputeCapabilityMinor: *value = 0; break;
    case cudaDevAttrMultiProcessorCount: *value = kMultiprocessors; break;
    case cudaDevAttrMaxSharedMemoryPerBlock: *value = int(kMostStaticShared); break;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin: *value = int(kMostShared); break;
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor: *value = int(kMostShared); break;
    case cudaDevAttrMaxThreadsPerBlock: *value = kMostThreads; break;
    case cudaDevAttrMaxThreadsPerMultiProcessor: *value = 2 * kMostThreads; break;
    case cudaDevAttrMaxGridDimX: *value = 0x7fffffff; break;
    case cudaDevAttrL2CacheSize: *value = 4 << 20; break;
    case cudaDevAttrWarpSize: *value = kWarp; break;
    default: return set_last_error(cudaErrorNotSupported);
  }
  return check_device(device);
}

cudaError_t cudaMalloc(void** p, size_t bytes) { return allocate(p, bytes); }
cudaError_t cudaMallocAsync(void** p, size_t bytes, cudaStream_t) { return allocate(p, bytes); }
cudaError_t cudaFree(void* p) { return release(p); }
cudaError_t cudaFreeAsync(void* p, cudaStream_t) { return release(p); }
cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  *free = *total = kMemory;
  return cudaSuccess;
}
cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind) {
  std::memcpy(to, from, bytes);
  return cudaSuccess;
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t) {
  return cudaMemcpy(to, from, bytes, kind);
}
cudaError_t cudaMemset(void* p, int value, size_t bytes) {
  std::memset(p, value, bytes);
  return cudaSuccess;
}
cudaError_t cudaMemsetAsync(void* p, int value, size_t bytes, cudaStream_t) {
  return cudaMemset(p, value, bytes);
}
cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* p) {
  *attributes = {};
  attributes->type = cudaMemoryTypeDevice;  // all memory of the process: the device is the host
  attributes->devicePointer = const_cast<void*>(p);
  return cudaSuccess;
}

cudaError_t cudaFuncSetAttribute(const void* kernel, cudaFuncAttribute attribute, int value) {
  if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize) return cudaSuccess;
  if (value < 0 || size_t(value) > kMostShared) return set_last_error(cudaErrorInvalidValue);
  const std::lock_guard<std::mutex> guard(lock);
  opted_in[kernel] = value;
  return cudaSuccess;
}
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void*) {
  *attributes = {};
  attributes->maxThreadsPerBlock = kMostThreads;
  return cudaSuccess;
}
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void*, int threads,
                                                          size_t shared) {
  if (threads < 1 || threads > kMostThreads) return set_last_error(cudaErrorInvalidValue);
  const size_t by_shared = shared ? kMostShared / shared : 32;
  *blocks = int(std::min<size_t>(size_t(2 * kMostThreads / threads), by_shared));
  return cudaSuccess;
}

// A stream or an event is any address of its own.
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  *stream = reinterpret_cast<cudaStream_t>(new char);
  return cudaSuccess;
}
cudaError_t cudaStreamCreate(cudaStream_t* stream) { return cudaStreamCreateWithFlags(stream, 0); }
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  delete reinterpret_cast<char*>(stream);
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t) { return cudaSuccess; }
cudaError_t cudaStreamQuery(cudaStream_t) { return cudaSuccess; }
cudaError_t cudaStreamWaitEvent(cudaStream_t, cudaEvent_t, unsigned) { return cudaSuccess; }
cudaError_t cudaStreamGetDevice(cudaStream_t, int* device) { return cudaGetDevice(device); }
cudaError_t cudaStreamIsCapturing(cudaStream_t, cudaStreamCaptureStatus* status) {
  *status = cudaStreamCaptureStatusNone;
  return cudaSuccess;
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  *event = reinterpret_cast<cudaEvent_t>(new char);
  return cudaSuccess;
}
cudaError_t cudaEventCreate(cudaEvent_t* event) { return cudaEventCreateWithFlags(event, 0); }
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete reinterpret_cast<char*>(event);
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t, cudaStream_t) { return cudaSuccess; }
cudaError_t cudaEventSynchronize(cudaEvent_t) { return cudaSuccess; }
cudaError_t cudaEventQuery(cudaEvent_t) { return cudaSuccess; }
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t, cudaEvent_t) {
  *milliseconds = 0;
  return cudaSuccess;
}

cudaError_t cudaGetLastError() {
  const cudaError_t error = last_error;
  last_error = cudaSuccess;
  return error;
}
cudaError_t cudaPeekAtLastError() { return last_error; }

const char* cudaGetErrorName(cudaError_t error) {
  switch (error) {
    case cudaSuccess: return "cudaSuccess";
    case cudaErrorInvalidValue: return "cudaErrorInvalidValue";
    case cudaErrorMemoryAllocation: return "cudaErrorMemoryAllocation";
    case cudaErrorInvalidConfiguration: return "cudaErrorInvalidConfiguration";
    case cudaErrorInvalidDevice: return "cudaErrorInvalidDevice";
    case cudaErrorLaunchFailure: return "cudaErrorLaunchFailure";
    case cudaErrorNotSupported: return "cudaErrorNotSupported";
    default: return "cudaErrorUnknown";
  }
}
const char* cudaGetErrorString(cudaError_t error) {
  switch (error) {
    case cudaSuccess: return "no error";
    case cudaErrorInvalidValue: return "invalid argument";
    case cudaErrorMemoryAllocation: return "out of memory";
    case cudaErrorInvalidConfiguration: return "invalid configuration argument";
    case cudaErrorInvalidDevice: return "invalid device ordinal";
    case cudaErrorLaunchFailure: return failure().c_str();
    case cudaErrorNotSupported: return "operation not supported";
    default: return "unknown error";
  }
}
}
