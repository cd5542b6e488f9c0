// How failures leave the interfaces: an HRESULT, and the message that cudml_last_error gives.
#pragma once

#include <stdexcept>
#include <string>

#include "cudml/DirectML.h"

namespace cudml::com {

/// A failure with a code of its own.
struct Failure : std::runtime_error {
  Failure(HRESULT failure, const std::string& text) : std::runtime_error(text), code(failure) {}
  HRESULT code;
};

/// The code of the exception that is being handled. Its text becomes the thread's latest message
/// and, where `is_shown`, a line on standard error.
HRESULT report(bool is_shown) noexcept;

}  // namespace cudml::com
