// Statuses and messages of failures.
#include "library/errors.h"

#include <new>
#include <string>

#include "core/check.h"
#include "cuda/device.h"
#include "library/thread_text.h"

namespace cudml::library {
namespace {

/// Of a thread's latest failure. A text that there is no memory for is constant.
struct Latest {
  const char* constant = "";
  int cuda_error = 0;

  const char* message() const { return constant ? constant : ThreadText<Latest>::here().c_str(); }
};

thread_local constinit Latest latest;

cudml_status failed(cudml_status status, const char* message, int cuda_error = 0) noexcept {
  latest.cuda_error = cuda_error;
  latest.constant = nullptr;
  try {
    ThreadText<Latest>::here() = message;
  } catch (...) {
    latest.constant = "a failure whose message there was no memory for";
  }
  return status;
}

}  // namespace

cudml_status status_of_exception() noexcept {
  try {
    throw;
  } catch (const TypeError& error) {
    return failed(CUDML_INVALID_TYPE, error.what());
  } catch (const std::invalid_argument& error) {
    return failed(CUDML_INVALID_ARGUMENT, error.what());
  } catch (const cuda::Error& error) {
    return failed(CUDML_CUDA_ERROR, error.what(), error.code);
  } catch (const std::bad_alloc&) {
    return failed(CUDML_OUT_OF_MEMORY, "there is not enough memory");
  } catch (const std::exception& error) {
    return failed(CUDML_INTERNAL_ERROR, error.what());
  } catch (...) {
    return failed(CUDML_INTERNAL_ERROR, "an unknown exception");
  }
}

}  // namespace cudml::library

const char* cudml_last_error(void) { return cudml::library::latest.message(); }
int cudml_last_cuda_error(void) { return cudml::library::latest.cuda_error; }
