// What CUDA devices this process can use; asked without creating a context.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

namespace cudml::cuda {

/// Python's cudml.CudaError: a failed CUDA call, or a device that is not there.
struct Error : std::runtime_error {
  using std::runtime_error::runtime_error;
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

DeviceQuery query_devices();

}  // namespace cudml::cuda
