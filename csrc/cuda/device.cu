// Devices, memory and order between streams, through the statically linked runtime.
#include <algorithm>
#include <atomic>
#include <mutex>
#include <utility>

#include "cuda/backend.h"
#include "cuda/capture.h"
#include "cuda/launch.cuh"
#include "cuda/operator_range.h"

namespace cudml::cuda {
namespace {

std::string version_text(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

/// Whether there is an error, of which nobody is told: no later call shall find it.
bool dismissed(cudaError_t error) {
  if (error == cudaSuccess) return false;
  cudaGetLastError();
  return true;
}

/// What an older driver lacks: the first branch that serves this toolkit's major version.
std::string describe_driver() {
  constexpr int kMajor = CUDART_VERSION / 1000;
  constexpr const char* kNeeded = kMajor == 12 ? "525" : kMajor == 13 ? "580" : nullptr;
  int found = 0;
  dismissed(cudaDriverGetVersion(&found));
  std::string text = found ? "; the driver found serves CUDA " + version_text(found) + " at most"
                           : "; no NVIDIA driver is found";
  text += ", this build needs one for CUDA " + std::to_string(kMajor);
  return kNeeded ? text + ", that is driver " + kNeeded + " or later" : text;
}

std::string describe(cudaError_t error) {
  const std::string text = std::string(cudaGetErrorName(error)) + ": " + cudaGetErrorString(error);
  return error == cudaErrorInsufficientDriver ? text + describe_driver() : text;
}

int attribute(cudaDeviceAttr which, int device) {
  int value = 0;
  check_cuda(cudaDeviceGetAttribute(&value, which, device), "cudaDeviceGetAttribute");
  return value;
}

/// Whether the code that a device runs knows clusters: it was compiled for the latest architecture
/// of the list up to the device's own.
bool has_cluster_code([[maybe_unused]] int compute_capability) {
#ifdef __CUDA_ARCH_LIST__
  int latest = 0;
  for (const int arch : {__CUDA_ARCH_LIST__})
    if (arch <= 10 * compute_capability) latest = std::max(latest, arch);
  return latest >= 900;
#else
  return true;
#endif
}

Situation ask_situation(int device) {
  Situation s;
  s.compute_capability = 10 * attribute(cudaDevAttrComputeCapabilityMajor, device) +
                         attribute(cudaDevAttrComputeCapabilityMinor, device);
  s.multiprocessors = attribute(cudaDevAttrMultiProcessorCount, device);
  s.shared_bytes = attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
  s.l2_bytes = attribute(cudaDevAttrL2CacheSize, device);
  s.has_clusters =
      attribute(cudaDevAttrClusterLaunch, device) != 0 && has_cluster_code(s.compute_capability);
  return s;
}

/// What is asked of a device once.
struct Facts {
  std::once_flag asked;
  Situation situation;
};

constexpr int kMostDevices = 256;

/// Throws where no device can be used; a machine may get its driver later, so failures are not
/// kept.
int device_count() {
  static int known = 0;
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  if (known) return known;
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error == cudaSuccess && count > 0) return known = std::min(count, kMostDevices);
  cudaGetLastError();  // a missing driver must not surface in a later call
  const cudaError_t reason = error == cudaSuccess ? cudaErrorNoDevice : error;
  throw Error("this machine has no usable GPU: " + describe(reason), reason,
              cudaGetErrorName(reason), "cudaGetDeviceCount");
}

/// Whether an error is a kernel's, which calls that come later are told.
bool is_fault(cudaError_t error) {
  return error >= cudaErrorIllegalAddress && error <= cudaErrorLaunchFailure;
}

}  // namespace

bool is_capturing(void* stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  check_cuda(cudaStreamIsCapturing(static_cast<cudaStream_t>(stream), &status),
             "cudaStreamIsCapturing");
  return status != cudaStreamCaptureStatusNone;
}

void check_cuda(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  cudaGetLastError();  // reported here and now, so no later call shall find it
  const char* origin = is_fault(error) ? "; it may come from earlier work on the device" : "";
  throw Error(std::string(what) + " failed with " + describe(error) + " (" +
                  std::to_string(int(error)) + ")" + origin,
              error, cudaGetErrorName(error), what);
}

DeviceQuery query_devices() {
  DeviceQuery query;
  query.is_built = true;
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error != cudaSuccess) {
    cudaGetLastError();  // a missing driver must not surface in a later call
    query.error = error;
    query.message = describe(error);
    return query;
  }
  for (int i = 0; i < count; ++i) {
    cudaDeviceProp properties;
    if (dismissed(cudaGetDeviceProperties(&properties, i))) continue;
    query.devices.push_back(
        {properties.name, properties.major, properties.minor, int64_t(properties.totalGlobalMem)});
  }
  return query;
}

Situation situation_of_device(int device) {
  // Never destroyed: threads may still call while the process ends.
  static Facts* const facts = new Facts[kMostDevices];
  const int count = device_count();
  if (device < 0 || device >= count)
    throw Error("this machine has " + std::to_string(count) + " CUDA device" +
                    (count == 1 ? "" : "s") + ", so there is no cuda:" + std::to_string(device),
                cudaErrorInvalidDevice, cudaGetErrorName(cudaErrorInvalidDevice), "");
  std::call_once(facts[device].asked,
                 [device] { facts[device].situation = ask_situation(device); });
  return facts[device].situation;
}

int current_device() {
  device_count();
  int device = 0;
  check_cuda(cudaGetDevice(&device), "cudaGetDevice");
  return device;
}

int device_of(const void* address) {
  device_count();
  cudaPointerAttributes attributes;
  check_cuda(cudaPointerGetAttributes(&attributes, address), "cudaPointerGetAttributes");
  const bool is_device =
      attributes.type == cudaMemoryTypeDevice || attributes.type == cudaMemoryTypeManaged;
  return is_device ? attributes.device : -1;
}

DeviceGuard::DeviceGuard(int device) {
  int former = 0;
  check_cuda(cudaGetDevice(&former), "cudaGetDevice");
  if (former == device) return;
  check_cuda(cudaSetDevice(device), "cudaSetDevice");
  former_ = former;
}

DeviceGuard::~DeviceGuard() {
  if (former_ >= 0) dismissed(cudaSetDevice(former_));
}

namespace {

/// This thread may allocate and release memory and load kernels while a stream captures, its own or
/// another's: none of it is enqueued, so no graph depends on it, but without this it would break
/// the capture.
class RelaxedCapture {
 public:
  RelaxedCapture() { cudaThreadExchangeStreamCaptureMode(&mode_); }
  ~RelaxedCapture() { cudaThreadExchangeStreamCaptureMode(&mode_); }
  RelaxedCapture(const RelaxedCapture&) = delete;
  RelaxedCapture& operator=(const RelaxedCapture&) = delete;

 private:
  cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;  // then the former one
};

/// Kernels that something was done with, each on one device; with those that find no place it is
/// done again.
class DoneKernels {
 public:
  bool has(const void* kernel, int device) const {
    const uintptr_t key = key_of(kernel, device);
    for (size_t i = 0; i < kTries; ++i)
      if (keys_[place(key, i)].load(std::memory_order_relaxed) == key) return true;
    return false;
  }
  void add(const void* kernel, int device) {
    const uintptr_t key = key_of(kernel, device);
    for (size_t i = 0; i < kTries; ++i) {
      uintptr_t found = 0;
      if (keys_[place(key, i)].compare_exchange_strong(found, key) || found == key) return;
    }
  }

 private:
  static constexpr size_t kPlaces = 4096, kTries = 16;

  static uintptr_t key_of(const void* kernel, int device) {
    return reinterpret_cast<uintptr_t>(kernel) * kMostDevices + uintptr_t(device);
  }
  static size_t place(uintptr_t key, size_t i) {
    return size_t((key * 0x9e3779b97f4a7c15u >> 40) + i) % kPlaces;
  }

  std::atomic<uintptr_t> keys_[kPlaces] = {};
};

DoneKernels loaded, opened;

}  // namespace

void load_now(const char* name, const void* kernel, int device) {
  const RelaxedCapture relaxed;
  cudaFuncAttributes attributes;
  check_cuda(cudaFuncGetAttributes(&attributes, kernel), name);
  loaded.add(kernel, device);
}

void load_once(const char* name, const void* kernel, int device) {
  if (!loaded.has(kernel, device)) load_now(name, kernel, device);
}

void open_shared_once(const char* name, const void* kernel, int device) {
  if (opened.has(kernel, device)) return;
  cudaFuncAttributes attributes;
  check_cuda(cudaFuncGetAttributes(&attributes, kernel), name);
  const int64_t most =
      situation_of_device(device).shared_bytes - int64_t(attributes.sharedSizeBytes);
  check_cuda(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, int(most)),
             name);
  opened.add(kernel, device);
}

namespace {

/// Kept for later calls; what a call needs beyond is given back at the next synchronization.
constexpr uint64_t kKeptBytes = uint64_t{64} << 20;

/// A pool of its own for a device, apart from what frameworks have set the default one to.
struct Pool {
  std::once_flag made;
  cudaMemPool_t handle = nullptr;
};

cudaMemPool_t new_pool(int device) {
  const RelaxedCapture relaxed;
  if (!attribute(cudaDevAttrMemoryPoolsSupported, device)) return nullptr;
  cudaMemPoolProps properties = {};
  properties.allocType = cudaMemAllocationTypePinned;
  properties.location.type = cudaMemLocationTypeDevice;
  properties.location.id = device;
  cudaMemPool_t pool = nullptr;
  check_cuda(cudaMemPoolCreate(&pool, &properties), "cudaMemPoolCreate");
  uint64_t kept = kKeptBytes;
  check_cuda(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &kept),
             "cudaMemPoolSetAttribute");
  return pool;
}

/// The current device's pool, made when it is first needed; null where it can have none.
cudaMemPool_t own_pool() {
  static Pool* const pools = new Pool[kMostDevices];  // likewise
  const int device = current_device();
  if (device >= kMostDevices) return nullptr;
  Pool& pool = pools[device];
  std::call_once(pool.made, [&] { pool.handle = new_pool(device); });
  return pool.handle;
}

}  // namespace

StreamMemory::StreamMemory(int64_t bytes, void* stream) : stream_(stream) {
  if (bytes <= 0) return;
  const auto on = static_cast<cudaStream_t>(stream);
  if (const cudaMemPool_t pool = own_pool()) {
    is_pooled_ = true;
    check_cuda(cudaMallocFromPoolAsync(&data_, size_t(bytes), pool, on), "cudaMallocFromPoolAsync");
    return;
  }
  if (is_capturing(on))
    throw Error("the device has no memory pools, so a graph cannot hold the " +
                    std::to_string(bytes) + " bytes that the call needs for itself",
                cudaErrorNotSupported, cudaGetErrorName(cudaErrorNotSupported), "");
  const RelaxedCapture relaxed;  // of another stream
  check_cuda(cudaMalloc(&data_, size_t(bytes)), "cudaMalloc");
}

StreamMemory::~StreamMemory() {
  if (!data_) return;
  if (is_pooled_) {
    dismissed(cudaFreeAsync(data_, static_cast<cudaStream_t>(stream_)));
    return;
  }
  const RelaxedCapture relaxed;
  dismissed(cudaFree(data_));
}

OwnedMemory::OwnedMemory(int64_t bytes) {
  if (bytes <= 0) return;
  const RelaxedCapture relaxed;
  cudaEvent_t event = nullptr;
  check_cuda(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "cudaEventCreateWithFlags");
  event_ = event;
  const cudaError_t error = cudaMalloc(&data_, size_t(bytes));
  if (error == cudaSuccess) return;
  cudaEventDestroy(event);
  check_cuda(error, "cudaMalloc");
}

OwnedMemory::~OwnedMemory() {
  if (!data_) return;
  // Operators are dropped when the garbage collector says so. Errors of a process that is ending
  // are nobody's business.
  const RelaxedCapture relaxed;
  if (event_) dismissed(cudaEventDestroy(static_cast<cudaEvent_t>(event_)));
  dismissed(cudaFree(data_));
}

OwnedMemory& OwnedMemory::operator=(OwnedMemory&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(event_, other.event_);
  std::swap(last_stream_, other.last_stream_);
  std::swap(is_used_, other.is_used_);
  return *this;
}

namespace {

/// What no other stream has, ever; 0 where that is not known. A handle is no identity: that of a
/// destroyed stream is used again, and 2 is another stream in each thread.
uint64_t identity(cudaStream_t stream) {
  unsigned long long id = 0;
  if (stream == cudaStreamPerThread) return 0;
  return dismissed(cudaStreamGetId(stream, &id)) ? 0 : id;
}

}  // namespace

void OwnedMemory::enter(void* stream) {
  const auto next = static_cast<cudaStream_t>(stream);
  if (!data_ || !is_used_ || is_capturing(next)) return;
  if (last_stream_ && identity(next) == last_stream_) return;
  check_cuda(cudaStreamWaitEvent(next, static_cast<cudaEvent_t>(event_), 0), "cudaStreamWaitEvent");
}

void OwnedMemory::leave(void* stream) {
  const auto last = static_cast<cudaStream_t>(stream);
  if (!data_ || is_capturing(last)) return;
  check_cuda(cudaEventRecord(static_cast<cudaEvent_t>(event_), last), "cudaEventRecord");
  last_stream_ = identity(last);
  is_used_ = true;
}

#if __has_include(<nvtx3/nvToolsExt.h>)
OperatorRange::OperatorRange(const char* op) { nvtxRangePushA(op); }
OperatorRange::~OperatorRange() { nvtxRangePop(); }
#else
OperatorRange::OperatorRange(const char*) {}
OperatorRange::~OperatorRange() = default;
#endif

void order_after(void* stream, void* producer) {
  if (stream == producer) return;
  cudaEvent_t event = nullptr;
  check_cuda(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "cudaEventCreateWithFlags");
  cudaError_t error = cudaEventRecord(event, static_cast<cudaStream_t>(producer));
  if (error == cudaSuccess)
    error = cudaStreamWaitEvent(static_cast<cudaStream_t>(stream), event, 0);
  cudaEventDestroy(event);  // its resources stay until the wait is over
  check_cuda(error, "cudaStreamWaitEvent");
}

void copy(void* to, const void* from, int64_t bytes, void* stream) {
  check_cuda(cudaMemcpyAsync(to, from, size_t(bytes), cudaMemcpyDeviceToDevice,
                             static_cast<cudaStream_t>(stream)),
             "cudaMemcpyAsync");
}

}  // namespace cudml::cuda
