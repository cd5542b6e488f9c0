// The variables CUDML_… of the environment: read, and where that takes no more knowledge checked,
// in one place.
#pragma once

#include <cstdint>
#include <string_view>

namespace cudml {

constexpr int kMaxThreads = 1024;

/// What the process was started with. An empty variable is not set.
struct Environment {
  int threads = 0;               // CUDML_NUM_THREADS, 1 to kMaxThreads; 0: not set
  bool has_own_threads = false;  // CUDML_THREADS=own: no other library's
  int64_t stream_bytes = -1;     // CUDML_STREAM_BYTES, from 0 on; -1: not set
  bool is_logging = false;       // CUDML_LOG=debug
};

/// Read once. Throws std::invalid_argument, at every call, where a variable is out of range; `op`
/// begins the refusal.
const Environment& environment(const char* op = "cudml");

/// A variable's text as it is now, empty where it is not set.
std::string_view environment_text(const char* name);

/// Refuses a variable's value: `permitted` says what it must be.
[[noreturn]] void refuse_variable(const char* op, const char* name, std::string_view value,
                                  std::string_view permitted);

}  // namespace cudml
