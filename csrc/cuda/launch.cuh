// The one way to launch a kernel: a configuration, an error that names the kernel, a profiler's
// range.
#pragma once

#include <cuda_runtime.h>

#include "cuda/backend.h"
#include "cuda/range.h"

namespace cudml::cuda {

/// Throws Error with the code, its name and what failed.
void check_cuda(cudaError_t error, const char* what);

/// Launches `kernel` over geometry.blocks blocks in x alone: grid y and z have small limits.
/// Shared memory beyond 48 KiB is opted in to.
template <class... Params, class... Args>
void launch(const char* name, void (*kernel)(Params...), const Geometry& geometry,
            const Target& target, Args&&... args) {
  if (geometry.blocks == 0) return;
  if (target.is_rehearsal) {  // the driver loads a kernel when it is first asked about
    cudaFuncAttributes attributes;
    return check_cuda(cudaFuncGetAttributes(&attributes, reinterpret_cast<const void*>(kernel)),
                      name);
  }
  const Range range(name);
  if (geometry.shared_bytes > (48 << 10))
    check_cuda(cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel),
                                    cudaFuncAttributeMaxDynamicSharedMemorySize,
                                    int(geometry.shared_bytes)),
               name);
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(geometry.blocks);
  config.blockDim = dim3(geometry.threads);
  config.dynamicSmemBytes = size_t(geometry.shared_bytes);
  config.stream = static_cast<cudaStream_t>(target.stream);
  check_cuda(cudaLaunchKernelEx(&config, kernel, static_cast<Params>(args)...), name);
}

}  // namespace cudml::cuda
