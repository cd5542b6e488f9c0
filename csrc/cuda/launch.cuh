// The one way to launch a kernel: a configuration, an error that names the kernel, a profiler's
// range.
#pragma once

#include <cuda_runtime.h>

#include "cuda/backend.h"
#include "cuda/range.h"

namespace cudml::cuda {

/// Throws Error with the code, its name and what failed.
void check_cuda(cudaError_t error, const char* what);

/// Has the driver load a kernel on the device, which is current: it does so at the first question
/// about it, also while a stream captures.
void load_now(const char* name, const void* kernel, int device);

/// The same unless it was done before, as the first launch may be a captured one.
void load_once(const char* name, const void* kernel, int device);

/// Has launches of the kernel on the device, which is current, take as much shared memory as it
/// has: what one launch needs would, where threads launch at once, be less than what another does.
void open_shared_once(const char* name, const void* kernel, int device);

/// Shared memory beyond 48 KiB, a kernel's own variables and the dynamic bytes together, is opted
/// in to. No kernel's variables take more than the rest.
constexpr int64_t kMostUnaskedDynamic = 24 << 10;

/// Launches `kernel` over geometry.blocks blocks, in clusters of geometry.cluster, in x alone: grid
/// y and z have small limits.
template <class... Params, class... Args>
void launch(const char* name, void (*kernel)(Params...), const Geometry& geometry,
            const Target& target, Args&&... args) {
  if (geometry.blocks == 0) return;
  const auto address = reinterpret_cast<const void*>(kernel);
  if (target.is_rehearsal) return load_now(name, address, target.device);
  const Range range(name);
  load_once(name, address, target.device);
  if (geometry.shared_bytes > kMostUnaskedDynamic) open_shared_once(name, address, target.device);
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(geometry.blocks);
  config.blockDim = dim3(geometry.threads);
  config.dynamicSmemBytes = size_t(geometry.shared_bytes);
  config.stream = static_cast<cudaStream_t>(target.stream);
  cudaLaunchAttribute cluster = {};
  if (geometry.cluster > 1) {
    cluster.id = cudaLaunchAttributeClusterDimension;
    cluster.val.clusterDim = {geometry.cluster, 1, 1};
    config.attrs = &cluster;
    config.numAttrs = 1;
  }
  check_cuda(cudaLaunchKernelEx(&config, kernel, static_cast<Params>(args)...), name);
}

}  // namespace cudml::cuda
