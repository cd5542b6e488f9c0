// How failures leave the C interface: a status, and a message that the thread can ask for.
#pragma once

#include "cpu/simd/float_state.h"
#include "cudml/cudml.h"

namespace cudml::library {

/// The status of the exception that is being handled; its text is the thread's latest message.
cudml_status status_of_exception() noexcept;

/// What `body` comes to, under the floating-point state that results are defined for.
template <class Body>
cudml_status guarded(const Body& body) noexcept {
  const FloatState state;
  try {
    body();
    return CUDML_SUCCESS;
  } catch (...) {
    return status_of_exception();
  }
}

}  // namespace cudml::library
