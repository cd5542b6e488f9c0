// The log of the stand-in runtime's calls, and those that were asked to fail: see calls.h.
#include "calls.h"

#include <unistd.h>

#include <map>
#include <mutex>

#include "executor.h"

namespace cudml::simt {
namespace {

struct Failure {
  int skipped = 0;
  cudaError_t error = cudaSuccess;
};

std::mutex lock;
using Guard = std::lock_guard<std::mutex>;
std::map<std::string, Failure> failures;
std::vector<Noted> notes;
bool is_logging = false;
int driver = CUDART_VERSION;  // the newest CUDA that the driver serves

}  // namespace

int& current_device() {
  thread_local int device = 0;
  return device;
}

void log_calls(bool is_on) {
  const Guard guard(lock);
  notes.clear();
  is_logging = is_on;
}

std::vector<Noted> noted_calls() {
  const Guard guard(lock);
  return notes;
}

void fail_call(const std::string& call, int skipped, cudaError_t error) {
  const Guard guard(lock);
  failures[call] = {skipped, error};
}

cudaError_t begin(const char* call, cudaStream_t stream, uint64_t object) {
  static const pid_t owner = getpid();  // a process that was forked later has no device
  if (getpid() != owner) return set_last_error(cudaErrorInitializationError);
  const Guard guard(lock);
  if (is_logging)
    notes.push_back({call, reinterpret_cast<uintptr_t>(stream), current_device(), object});
  if (driver / 1000 < CUDART_VERSION / 1000) return set_last_error(cudaErrorInsufficientDriver);
  const auto found = failures.find(call);
  if (found == failures.end() || found->second.skipped-- > 0) return cudaSuccess;
  const cudaError_t error = found->second.error;
  failures.erase(found);
  return set_last_error(error);
}

void set_driver(int version) { driver = version; }
int driver_version() { return driver; }

}  // namespace cudml::simt
