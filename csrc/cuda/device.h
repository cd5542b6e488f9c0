// What of the CUDA runtime the rest of the library needs beside launches: devices, memory, order
// between streams, and the error that every failed call becomes. Streams are cudaStream_t; null is
// the legacy default stream. Nothing here needs a toolkit's headers.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace cudml::cuda {

/// Python's cudml.CudaError: a failed CUDA call, or a device that is not there. `call` is a runtime
/// function or a kernel; without a failed call, `code` is 0 and both names are empty.
struct Error : std::runtime_error {
  explicit Error(const std::string& text) : std::runtime_error(text) {}
  Error(const std::string& text, int error_code, std::string error_name, std::string failed_call)
      : std::runtime_error(text),
        code(error_code),
        name(std::move(error_name)),
        call(std::move(failed_call)) {}

  /// The same error with a text that begins with `prefix`.
  Error prefixed(const std::string& prefix) const { return {prefix + what(), code, name, call}; }

  int code = 0;            // cudaError_t
  std::string name, call;  // "cudaErrorInvalidValue", "cudaMallocAsync"
};

struct Device {
  std::string name;
  int major = 0, minor = 0;  // compute capability
  int64_t memory_bytes = 0;
};

struct DeviceQuery {
  bool is_built = false;  // CUDA code is part of this build
  int error = 0;          // cudaError_t of the device count; 0 = none
  std::string message;    // why there are no devices, empty if there are
  std::vector<Device> devices;
};

/// What CUDA devices this process can use; asked without creating a context.
DeviceQuery query_devices();

/// The device that is current on the calling thread. Throws Error where there is none.
int current_device();

/// The device that the memory behind an address belongs to; -1 for memory of the host.
int device_of(const void* address);

/// Makes a device current while it lives, then the former one again.
class DeviceGuard {
 public:
  explicit DeviceGuard(int device);
  ~DeviceGuard();
  DeviceGuard(const DeviceGuard&) = delete;
  DeviceGuard& operator=(const DeviceGuard&) = delete;

 private:
  int former_ = -1;  // to be restored, or -1
};

/// Memory of the current device for what is enqueued on `stream` while it lives: both allocation
/// and release take their turn on the stream, from a pool of the library's own. Without bytes there
/// is no memory and no call. A device without pools allocates at once and waits when it releases,
/// which no graph can hold.
class StreamMemory {
 public:
  StreamMemory(int64_t bytes, void* stream);
  ~StreamMemory();
  StreamMemory(const StreamMemory&) = delete;
  StreamMemory& operator=(const StreamMemory&) = delete;

  void* data() const { return data_; }

 private:
  void *data_ = nullptr, *stream_;
  bool is_pooled_ = false;
};

/// Memory of the current device that outlives calls, used by one stream after the other.
class OwnedMemory {
 public:
  OwnedMemory() = default;
  explicit OwnedMemory(int64_t bytes);
  ~OwnedMemory();
  OwnedMemory(OwnedMemory&& other) noexcept { *this = std::move(other); }
  OwnedMemory& operator=(OwnedMemory&& other) noexcept;

  void* data() const { return data_; }

  /// Call before and after enqueuing work on the memory: work of another stream is waited for, on
  /// the device, and so is that of a stream which may be another. What a graph captures is ordered
  /// by whoever launches the graph.
  void enter(void* stream);
  void leave(void* stream);

 private:
  void* data_ = nullptr;
  void* event_ = nullptr;     // after the last work
  uint64_t last_stream_ = 0;  // its identity
  bool is_used_ = false;
};

/// Work enqueued on `stream` from now on waits for what `producer` holds now. The current device
/// is that of both.
void order_after(void* stream, void* producer);

/// Enqueues a copy within the memory of the current device.
void copy(void* to, const void* from, int64_t bytes, void* stream);

}  // namespace cudml::cuda
