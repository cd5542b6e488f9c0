// What shows the host's part of a call: another library's arrays of the CPU as a device's, and
// launches that do nothing. Tests only.
#pragma once

#include <cstdint>

#include "bindings/dlpack.h"

namespace cudml::simt {

/// A table that describes arrays as `library` does, but those of the CPU as on device 0: all memory
/// of the process is the executor's. It lives as long as the process, and the last one counts.
const bindings::dlpack::ExchangeTable* table_on_device(
    const bindings::dlpack::ExchangeTable* library);

/// What tables of this kind say is the library's current stream.
void set_current_stream(uintptr_t stream);

/// Whether launches do nothing from now on.
void skip_kernels(bool are_skipped);

}  // namespace cudml::simt
