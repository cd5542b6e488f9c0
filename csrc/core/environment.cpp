// Reading and checking the environment.
#include "core/environment.h"

#include <atomic>
#include <charconv>
#include <cstdlib>
#include <limits>
#include <memory>
#include <string>

#include "core/check.h"
#include "core/shown.h"

namespace cudml {
namespace {

/// Digits and nothing else, between `least` and `most`; `unset` where there is no such variable.
int64_t whole_number(const char* op, const char* name, int64_t least, int64_t most, int64_t unset) {
  const std::string_view text = environment_text(name);
  if (text.empty()) return unset;
  int64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  if (error == std::errc() && rest == end && value >= least && value <= most) return value;
  refuse_variable(op, name, text, join("it must be a whole number from ", least, " to ", most));
}

bool is_logging(const char* op) {
  const std::string_view wish = environment_text("CUDML_LOG");
  if (wish == "debug") return true;
  if (wish.empty() || wish == "off" || wish == "0") return false;
  refuse_variable(op, "CUDML_LOG", wish, "it must be \"debug\" or \"off\"");
}

bool has_own_threads(const char* op) {
  const std::string_view wish = environment_text("CUDML_THREADS");
  if (wish == "own") return true;
  if (wish.empty() || wish == "auto") return false;
  refuse_variable(op, "CUDML_THREADS", wish, "it must be \"auto\" or \"own\"");
}

/// Read when the library is loaded (cpu/isa/processor.cpp); here it is checked.
void check_prefetch(const char* op) {
  const std::string_view wish = environment_text("CUDML_PREFETCH");
  if (wish.empty() || wish == "runs" || wish == "apart") return;
  refuse_variable(op, "CUDML_PREFETCH", wish, "it must be \"runs\" or \"apart\"");
}

Environment read(const char* op) {
  constexpr int64_t kAny = std::numeric_limits<int64_t>::max();
  Environment found;
  found.threads = int(whole_number(op, "CUDML_NUM_THREADS", 1, kMaxThreads, found.threads));
  found.has_own_threads = has_own_threads(op);
  found.stream_bytes = whole_number(op, "CUDML_STREAM_BYTES", 0, kAny, found.stream_bytes);
  found.is_logging = is_logging(op);
  check_prefetch(op);
  return found;
}

// Without a lock: a child that is forked while another thread initializes something waits for that
// for ever.
std::atomic<const Environment*> known{nullptr};

}  // namespace

const Environment& environment(const char* op) {
  const Environment* first = known.load(std::memory_order_acquire);
  if (first) return *first;
  auto found = std::make_unique<const Environment>(read(op));
  return *(known.compare_exchange_strong(first, found.get()) ? found.release() : first);
}

std::string_view environment_text(const char* name) {
  const char* text = std::getenv(name);
  return text ? text : "";
}

void refuse_variable(const char* op, const char* name, std::string_view value,
                     std::string_view permitted) {
  refuse(op, ": ", name, " is \"", shown(value), "\"; ", permitted);
}

}  // namespace cudml
