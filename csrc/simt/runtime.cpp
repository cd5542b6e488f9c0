// The CUDA runtime's functions that the library calls, for two devices that are the executor:
// devices, memory, kernels' attributes and errors. Streams and events are in streams.cpp.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>

#include "executor.h"
#include "sanitizers.h"
#include "streams.h"

namespace cudml::simt {
namespace {

constexpr size_t kAlignment = 256, kMemory = size_t{8} << 30;
constexpr int kMultiprocessors = 4;

struct Allocation {
  char* raw = nullptr;
  size_t bytes = 0, raw_bytes = 0;
  int device = 0;
};

/// Memory that tests allocated and said something of.
struct Placed {
  size_t bytes = 0;
  int device = 0;  // or -1, the host
};

struct Pool {
  int device = 0;
  uint64_t threshold = 0;  // bytes that it keeps for later
};

std::mutex lock;
std::map<char*, Allocation> allocations;
std::map<uintptr_t, Placed> placed;
std::map<std::pair<const void*, int>, int> opted_in;  // dynamic shared bytes, by kernel and device
std::map<cudaMemPool_t, Pool> pools;
bool has_pools = true;
thread_local cudaError_t last_error = cudaSuccess;

/// Exactly `bytes` bytes of 0xFF that only they may be touched of.
cudaError_t allocate(void** p, size_t bytes) {
  *p = nullptr;
  if (bytes == 0) return cudaSuccess;
  if (bytes > kMemory) return set_last_error(cudaErrorMemoryAllocation);
  Allocation made;
  made.bytes = bytes;
  made.device = current_device();
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

cudaError_t check_device(int device) {
  const bool exists = device >= 0 && device < kDevices;
  return exists ? cudaSuccess : set_last_error(cudaErrorInvalidDevice);
}

/// The device of an address: where tests put it, where it was allocated, else the first one, since
/// all memory of the process is the device's. -1 is the host.
int device_of(uintptr_t address) {
  constexpr uintptr_t kFirst = 1 << 16, kEnd = uintptr_t{1} << 47;  // of addresses in a process
  if (address < kFirst || address >= kEnd) return -1;
  const std::lock_guard<std::mutex> guard(lock);
  auto near = placed.upper_bound(address);
  if (near != placed.begin() && address - (--near)->first < near->second.bytes)
    return near->second.device;
  auto made = allocations.upper_bound(reinterpret_cast<char*>(address));
  if (made == allocations.begin()) return 0;
  --made;
  const size_t offset = address - reinterpret_cast<uintptr_t>(made->first);
  return offset < made->second.bytes ? made->second.device : 0;
}

struct Words {
  cudaError_t error;
  const char *name, *text;
};

const Words& words_of(cudaError_t error) {
  static constexpr Words kWords[] = {
      {cudaSuccess, "cudaSuccess", "no error"},
      {cudaErrorInvalidValue, "cudaErrorInvalidValue", "invalid argument"},
      {cudaErrorMemoryAllocation, "cudaErrorMemoryAllocation", "out of memory"},
      {cudaErrorInitializationError, "cudaErrorInitializationError", "initialization error"},
      {cudaErrorInsufficientDriver, "cudaErrorInsufficientDriver",
       "CUDA driver version is insufficient for CUDA runtime version"},
      {cudaErrorNoDevice, "cudaErrorNoDevice", "no CUDA-capable device is detected"},
      {cudaErrorInvalidConfiguration, "cudaErrorInvalidConfiguration",
       "invalid configuration argument"},
      {cudaErrorInvalidClusterSize, "cudaErrorInvalidClusterSize", "Invalid cluster size"},
      {cudaErrorInvalidDevice, "cudaErrorInvalidDevice", "invalid device ordinal"},
      {cudaErrorInvalidResourceHandle, "cudaErrorInvalidResourceHandle", "invalid resource handle"},
      {cudaErrorIllegalState, "cudaErrorIllegalState", "the operation cannot be performed now"},
      {cudaErrorLaunchFailure, "cudaErrorLaunchFailure", "unspecified launch failure"},
      {cudaErrorNotSupported, "cudaErrorNotSupported", "operation not supported"},
      {cudaErrorStreamCaptureUnsupported, "cudaErrorStreamCaptureUnsupported",
       "operation not permitted when stream is capturing"},
      {cudaErrorStreamCaptureInvalidated, "cudaErrorStreamCaptureInvalidated",
       "operation failed due to a previous error during capture"},
      {cudaErrorStreamCaptureUnmatched, "cudaErrorStreamCaptureUnmatched",
       "capture was not ended in the same stream as it began"},
      {cudaErrorStreamCaptureUnjoined, "cudaErrorStreamCaptureUnjoined",
       "capturing stream has unjoined work"},
      {cudaErrorStreamCaptureIsolation, "cudaErrorStreamCaptureIsolation",
       "dependency created on uncaptured work in another stream"},
      {cudaErrorStreamCaptureImplicit, "cudaErrorStreamCaptureImplicit",
       "operation would make the legacy stream depend on a capturing blocking stream"},
      {cudaErrorCapturedEvent, "cudaErrorCapturedEvent",
       "operation not permitted on an event last recorded in a capturing stream"},
  };
  static constexpr Words kUnknown = {cudaErrorUnknown, "cudaErrorUnknown", "unknown error"};
  for (const Words& words : kWords)
    if (words.error == error) return words;
  return kUnknown;
}

}  // namespace

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

void support_pools(bool are_there) { has_pools = are_there; }

std::vector<std::pair<int, uint64_t>> memory_pools() {
  const std::lock_guard<std::mutex> guard(lock);
  std::vector<std::pair<int, uint64_t>> found;
  for (const auto& [handle, pool] : pools) found.emplace_back(pool.device, pool.threshold);
  return found;
}

void place_memory(uintptr_t address, size_t bytes, int device) {
  const std::lock_guard<std::mutex> guard(lock);
  placed[address] = {bytes, device};
}

void unplace_memory(uintptr_t address) {
  const std::lock_guard<std::mutex> guard(lock);
  placed.erase(address);
}

cudaError_t set_last_error(cudaError_t error) { return last_error = error; }

SharedLimits shared_limits(const void* kernel) {
  const std::lock_guard<std::mutex> guard(lock);
  const auto found = opted_in.find({kernel, current_device()});
  if (found == opted_in.end()) return {};
  return {size_t(found->second), kMostShared};
}

}  // namespace cudml::simt

using namespace cudml::simt;

extern "C" {

cudaError_t cudaGetDeviceCount(int* count) {
  if (const cudaError_t error = begin("cudaGetDeviceCount")) return error;
  *count = kDevices;
  return cudaSuccess;
}
cudaError_t cudaGetDevice(int* device) {
  *device = current_device();
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) {
  if (const cudaError_t error = begin("cudaSetDevice", nullptr, uint64_t(device))) return error;
  if (const cudaError_t error = check_device(device)) return error;
  current_device() = device;
  return cudaSuccess;
}
cudaError_t cudaDeviceSynchronize() { return begin_unsafe("cudaDeviceSynchronize"); }
cudaError_t cudaDriverGetVersion(int* version) {
  *version = driver_version();
  return cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}

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
    case cudaDevAttrClusterLaunch: *value = 1; break;
    case cudaDevAttrMemoryPoolsSupported: *value = has_pools; break;
    default: return set_last_error(cudaErrorNotSupported);
  }
  return check_device(device);
}

cudaError_t cudaMalloc(void** p, size_t bytes) {
  const cudaError_t error = begin_unsafe("cudaMalloc", bytes);
  return error ? error : allocate(p, bytes);
}
cudaError_t cudaFree(void* p) {
  const cudaError_t error = begin_unsafe("cudaFree", reinterpret_cast<uintptr_t>(p));
  return error ? error : release(p);
}
static cudaError_t allocate_async(const char* call, void** p, size_t bytes, cudaStream_t stream) {
  const auto nothing = [] { return cudaSuccess; };
  if (const cudaError_t error = enqueue(call, stream, bytes, nothing)) return error;
  if (!has_pools) return set_last_error(cudaErrorNotSupported);
  const cudaError_t error = allocate(p, bytes);
  if (error == cudaSuccess && *p && is_capturing(stream)) keep_for_graph(stream, *p);
  return error;
}
cudaError_t cudaMallocAsync(void** p, size_t bytes, cudaStream_t stream) {
  return allocate_async("cudaMallocAsync", p, bytes, stream);
}
cudaError_t cudaMallocFromPoolAsync(void** p, size_t bytes, cudaMemPool_t pool,
                                    cudaStream_t stream) {
  if (!pools.count(pool)) return set_last_error(cudaErrorInvalidValue);
  return allocate_async("cudaMallocFromPoolAsync", p, bytes, stream);
}
cudaError_t cudaMemPoolCreate(cudaMemPool_t* pool, const cudaMemPoolProps* properties) {
  if (const cudaError_t error = begin("cudaMemPoolCreate")) return error;
  if (!has_pools) return set_last_error(cudaErrorNotSupported);
  if (properties->location.type != cudaMemLocationTypeDevice)
    return set_last_error(cudaErrorInvalidValue);
  if (const cudaError_t error = check_device(properties->location.id)) return error;
  const std::lock_guard<std::mutex> guard(lock);
  *pool = reinterpret_cast<cudaMemPool_t>(new char);
  pools[*pool] = {properties->location.id, 0};
  return cudaSuccess;
}
cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t pool, cudaMemPoolAttr attribute, void* value) {
  if (const cudaError_t error = begin("cudaMemPoolSetAttribute")) return error;
  const std::lock_guard<std::mutex> guard(lock);
  if (!pools.count(pool) || attribute != cudaMemPoolAttrReleaseThreshold)
    return set_last_error(cudaErrorInvalidValue);
  pools[pool].threshold = *static_cast<const uint64_t*>(value);
  return cudaSuccess;
}
cudaError_t cudaFreeAsync(void* p, cudaStream_t stream) {
  const bool is_kept = is_capturing(stream);  // and freed with the graph
  return enqueue("cudaFreeAsync", stream, reinterpret_cast<uintptr_t>(p),
                 [=] { return is_kept ? cudaSuccess : release(p); });
}
cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  *free = *total = kMemory;
  return cudaSuccess;
}
cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind) {
  if (const cudaError_t error = begin_unsafe("cudaMemcpy", bytes)) return error;
  std::memcpy(to, from, bytes);
  return cudaSuccess;
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind,
                            cudaStream_t stream) {
  return enqueue("cudaMemcpyAsync", stream, bytes, [=] {
    std::memcpy(to, from, bytes);
    return cudaSuccess;
  });
}
cudaError_t cudaMemset(void* p, int value, size_t bytes) {
  if (const cudaError_t error = begin_unsafe("cudaMemset", bytes)) return error;
  std::memset(p, value, bytes);
  return cudaSuccess;
}
cudaError_t cudaMemsetAsync(void* p, int value, size_t bytes, cudaStream_t stream) {
  return enqueue("cudaMemsetAsync", stream, bytes, [=] {
    std::memset(p, value, bytes);
    return cudaSuccess;
  });
}
cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* p) {
  if (const cudaError_t error = begin("cudaPointerGetAttributes")) return error;
  *attributes = {};
  const int device = device_of(reinterpret_cast<uintptr_t>(p));
  attributes->type = device < 0 ? cudaMemoryTypeUnregistered : cudaMemoryTypeDevice;
  attributes->device = device < 0 ? 0 : device;
  attributes->devicePointer = const_cast<void*>(p);
  return cudaSuccess;
}

cudaError_t cudaFuncSetAttribute(const void* kernel, cudaFuncAttribute attribute, int value) {
  if (const cudaError_t error = begin("cudaFuncSetAttribute")) return error;
  if (const cudaError_t error = load(kernel)) return error;
  if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize) return cudaSuccess;
  if (value < 0 || size_t(value) > kMostShared) return set_last_error(cudaErrorInvalidValue);
  const std::lock_guard<std::mutex> guard(lock);
  opted_in[{kernel, current_device()}] = value;
  return cudaSuccess;
}
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void* kernel) {
  if (const cudaError_t error = load(kernel)) return error;
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

cudaError_t cudaGetLastError() {
  const cudaError_t error = last_error;
  last_error = cudaSuccess;
  return error;
}
cudaError_t cudaPeekAtLastError() { return last_error; }

const char* cudaGetErrorName(cudaError_t error) { return words_of(error).name; }
const char* cudaGetErrorString(cudaError_t error) {
  return error == cudaErrorLaunchFailure ? failure().c_str() : words_of(error).text;
}
}
