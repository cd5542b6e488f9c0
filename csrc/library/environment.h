// The variables CUDML_… of the environment, checked with what the library knows of its kernels.
#pragma once

#include <cstdint>

namespace cudml::library {

/// Refuses what is out of range in the variables; `op` begins the refusal. CUDML_KERNEL is read
/// anew; its hash, which tells plans apart, is returned.
uint64_t check_environment(const char* op);

/// The hash of CUDML_KERNEL as it is now.
uint64_t forced_kernel_now();

}  // namespace cudml::library
