// A log of the stand-in runtime's calls, and what they fail with where that was asked for.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <string>
#include <vector>

namespace cudml::simt {

constexpr int kDevices = 2;

/// The device that is current on this host thread.
int& current_device();

/// A call of the runtime, with the stream's handle, the current device, and what it is about: an
/// event, a number of bytes, a device, or the address of memory or of a kernel.
struct Noted {
  std::string call;
  uintptr_t stream = 0;
  int device = 0;
  uint64_t object = 0;
};

/// Forgets what was noted, and notes calls from now on or no more.
void log_calls(bool is_on);
std::vector<Noted> noted_calls();

/// The call after `skipped` more of this name fails with `error` and does nothing.
void fail_call(const std::string& call, int skipped, cudaError_t error);

/// The newest CUDA that the driver serves: 1000 * major + 10 * minor, 0 for no driver. A runtime of
/// a later major version than the driver's can do nothing.
void set_driver(int version);
int driver_version();

/// Notes a call; an error where it was asked to fail.
cudaError_t begin(const char* call, cudaStream_t stream = nullptr, uint64_t object = 0);

}  // namespace cudml::simt
