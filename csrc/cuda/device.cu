// Devices, memory and order between streams, through the statically linked runtime.
#include <algorithm>
#include <memory>
#include <mutex>
#include <utility>

#include "cuda/backend.h"
#include "cuda/launch.cuh"
#include "cuda/operator_range.h"

namespace cudml::cuda {
namespace {

std::string describe(cudaError_t error) {
  return std::string(cudaGetErrorName(error)) + ": " + cudaGetErrorString(error);
}

int attribute(cudaDeviceAttr which, int device) {
  int value = 0;
  check_cuda(cudaDeviceGetAttribute(&value, which, device), "cudaDeviceGetAttribute");
  return value;
}

Situation ask_situation(int device) {
  Situation s;
  s.compute_capability = 10 * attribute(cudaDevAttrComputeCapabilityMajor, device) +
                         attribute(cudaDevAttrComputeCapabilityMinor, device);
  s.multiprocessors = attribute(cudaDevAttrMultiProcessorCount, device);
  s.shared_bytes = attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
  s.l2_bytes = attribute(cudaDevAttrL2CacheSize, device);
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

}  // namespace

namespace {

/// Whether an error is a kernel's, which calls that come later are told.
bool is_fault(cudaError_t error) {
  return error >= cudaErrorIllegalAddress && error <= cudaErrorLaunchFailure;
}

bool is_capturing(cudaStream_t stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  check_cuda(cudaStreamIsCapturing(stream, &status), "cudaStreamIsCapturing");
  return status != cudaStreamCaptureStatusNone;
}

}  // namespace

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
    if (cudaGetDeviceProperties(&properties, i) != cudaSuccess) continue;
    query.devices.push_back(
        {properties.name, properties.major, properties.minor, int64_t(properties.totalGlobalMem)});
  }
  return query;
}

Situation situation_of_device(int device) {
  static const std::unique_ptr<Facts[]> facts(new Facts[kMostDevices]);
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
  if (former_ >= 0) cudaSetDevice(former_);
}

StreamMemory::StreamMemory(int64_t bytes, void* stream) : stream_(stream) {
  if (bytes > 0)
    check_cuda(cudaMallocAsync(&data_, size_t(bytes), static_cast<cudaStream_t>(stream)),
               "cudaMallocAsync");
}

StreamMemory::~StreamMemory() {
  if (data_) cudaFreeAsync(data_, static_cast<cudaStream_t>(stream_));
}

namespace {

/// This thread may allocate and release memory while a stream captures, its own or another's:
/// neither is enqueued, so no graph depends on it, but without this it would break the capture.
class RelaxedCapture {
 public:
  RelaxedCapture() { cudaThreadExchangeStreamCaptureMode(&mode_); }
  ~RelaxedCapture() { cudaThreadExchangeStreamCaptureMode(&mode_); }
  RelaxedCapture(const RelaxedCapture&) = delete;
  RelaxedCapture& operator=(const RelaxedCapture&) = delete;

 private:
  cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;  // then the former one
};

}  // namespace

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
  if (event_) cudaEventDestroy(static_cast<cudaEvent_t>(event_));
  cudaFree(data_);
}

OwnedMemory& OwnedMemory::operator=(OwnedMemory&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(event_, other.event_);
  std::swap(last_stream_, other.last_stream_);
  std::swap(is_used_, other.is_used_);
  return *this;
}

void OwnedMemory::enter(void* stream) {
  const auto next = static_cast<cudaStream_t>(stream);
  if (!data_ || !is_used_ || stream == last_stream_ || is_capturing(next)) return;
  check_cuda(cudaStreamWaitEvent(next, static_cast<cudaEvent_t>(event_), 0), "cudaStreamWaitEvent");
}

void OwnedMemory::leave(void* stream) {
  const auto last = static_cast<cudaStream_t>(stream);
  if (!data_ || is_capturing(last)) return;
  check_cuda(cudaEventRecord(static_cast<cudaEvent_t>(event_), last), "cudaEventRecord");
  last_stream_ = stream;
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

}  // namespace cudml::cuda
