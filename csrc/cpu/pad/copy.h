// Elements brought to other places in memory, by the paths of padding.
#pragma once

#include "core/tensor.h"

namespace cudml::cpu::CUDML_ISA {

/// Copies elements of 1, 2, 4 or 8 bytes along dimensions of `sizes`, by all threads. Strides are
/// in elements, and of `from` they may be 0.
void copy_elements(int64_t bytes, const Dims& sizes, const void* from, const Dims& from_strides,
                   void* to, const Dims& to_strides);

}  // namespace cudml::cpu::CUDML_ISA
