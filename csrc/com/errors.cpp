// Codes of failures.
#include "com/errors.h"

#include <cstdio>

#include "cudml/cudml.h"
#include "library/errors.h"

namespace cudml::com {
namespace {

/// cudaError_t of memory that is used up, and of devices that are not there.
constexpr int kMemoryAllocation = 2, kInsufficientDriver = 35, kNoDevice = 100,
              kInvalidDevice = 101;

HRESULT code_of_cuda(int error) {
  switch (error) {
    case kMemoryAllocation: return E_OUTOFMEMORY;
    case 0:  // no call has failed: the build has no kernels, or none for the device
    case kInsufficientDriver:
    case kNoDevice:
    case kInvalidDevice: return DXGI_ERROR_UNSUPPORTED;
    default: return E_FAIL;
  }
}

HRESULT code_of(cudml_status status) {
  switch (status) {
    case CUDML_INVALID_ARGUMENT:
    case CUDML_INVALID_TYPE: return E_INVALIDARG;
    case CUDML_OUT_OF_MEMORY: return E_OUTOFMEMORY;
    case CUDML_CUDA_ERROR: return code_of_cuda(cudml_last_cuda_error());
    default: return E_FAIL;
  }
}

HRESULT code_of_exception() noexcept {
  const cudml_status status = library::status_of_exception();  // keeps the message
  try {
    throw;
  } catch (const Failure& failure) {
    return failure.code;
  } catch (...) {
    return code_of(status);
  }
}

}  // namespace

HRESULT report(bool is_shown) noexcept {
  const HRESULT code = code_of_exception();
  if (is_shown) std::fprintf(stderr, "cudml: %s (0x%08x)\n", cudml_last_error(), unsigned(code));
  return code;
}

}  // namespace cudml::com
