// The device query, through the statically linked runtime.
#include <cuda_runtime.h>

#include "cuda/device.h"

namespace cudml::cuda {

DeviceQuery query_devices() {
  DeviceQuery query;
  query.is_built = true;
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error != cudaSuccess) {
    cudaGetLastError();  // a missing driver must not surface in a later call
    query.error = error;
    query.message = std::string(cudaGetErrorName(error)) + ": " + cudaGetErrorString(error);
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

}  // namespace cudml::cuda
