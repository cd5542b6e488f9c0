// How failures leave the C interface: a status, and a message that the thread can ask for.
#pragma once

#include <pthread.h>

#include "cpu/simd/float_state.h"
#include "cudml/cudml.h"

namespace cudml::library {

/// The status of the exception that is being handled; its text is the thread's latest message.
cudml_status status_of_exception() noexcept;

/// Puts off that another thread cancels this one: it would end the process here, where no exception
/// may leave.
class NoCancellation {
 public:
  NoCancellation() { pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before_); }
  ~NoCancellation() { pthread_setcancelstate(before_, nullptr); }
  NoCancellation(const NoCancellation&) = delete;
  NoCancellation& operator=(const NoCancellation&) = delete;

 private:
  int before_ = PTHREAD_CANCEL_ENABLE;
};

/// What every call from outside runs under: the floating-point state that results are defined for,
/// and no cancellation.
struct CallState {
  const NoCancellation whole;
  const FloatState numbers;
};

/// What `body` comes to.
template <class Body>
cudml_status guarded(const Body& body) noexcept {
  const CallState state;
  try {
    body();
    return CUDML_SUCCESS;
  } catch (...) {
    return status_of_exception();
  }
}

}  // namespace cudml::library
