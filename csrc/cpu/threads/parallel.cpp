// How many threads a call uses, and what is written past the caches.
#include "cpu/threads/parallel.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <fstream>
#include <new>
#include <string>
#include <thread>

#include "core/environment.h"
#include "cpu/memory/tuning.h"
#include "cpu/simd/fence.h"
#include "cpu/threads/arena.h"
#include "cpu/threads/thread_pool.h"

namespace cudml::cpu {
namespace {

using tuning::threads::kBytesPerThread;

/// OpenMP's variable may list one number for each level of nesting; the first counts. What is wrong
/// with it is not for this library to say.
int openmp_threads() {
  const char* text = std::getenv("OMP_NUM_THREADS");
  if (!text) return 0;
  char* end;
  const long n = std::strtol(text, &end, 10);
  const bool ends = *end == '\0' || *end == ',';
  return end != text && ends && n > 0 ? int(std::min<long>(n, kMaxThreads)) : 0;
}

/// CPUs of the control group's quota (version 2), or a large number.
int quota() {
  std::ifstream file("/sys/fs/cgroup/cpu.max");
  std::string limit;
  long period = 0;
  if (!(file >> limit >> period) || limit == "max" || period <= 0) return kMaxThreads;
  const long n = std::strtol(limit.c_str(), nullptr, 10);
  return int(std::clamp<long>((n + period - 1) / period, 1, kMaxThreads));
}

int default_threads() {
  if (const int n = environment().threads) return n;
  if (const int n = openmp_threads()) return n;
  cpu_set_t cpus;
  const bool known = sched_getaffinity(0, sizeof cpus, &cpus) == 0;
  const int n = known ? CPU_COUNT(&cpus) : int(std::thread::hardware_concurrency());
  return std::clamp(std::min(n, quota()), 1, kMaxThreads);
}

// Asked as the library is loaded: a child that is forked while another thread initializes something
// waits for that for ever.
#ifdef _SC_LEVEL2_CACHE_SIZE
const int64_t level2_found = sysconf(_SC_LEVEL2_CACHE_SIZE);
#else
constexpr int64_t level2_found = 0;
#endif
#ifdef _SC_LEVEL3_CACHE_SIZE
const int64_t level3_found = sysconf(_SC_LEVEL3_CACHE_SIZE);
#else
constexpr int64_t level3_found = 0;
#endif

/// What one core has at the second level.
int64_t level2_bytes() {
  constexpr int64_t kUsual = 1 << 20;
  return level2_found > 0 ? level2_found : kUsual;
}

/// What cores share at the third level, if there is one; virtual machines may make it up.
int64_t level3_bytes() { return std::max<int64_t>(level3_found, 0); }

/// CUDML_STREAM_BYTES, or else `usual`.
int64_t stream_bytes(int64_t usual) {
  const int64_t forced = environment().stream_bytes;
  return forced >= 0 ? forced : usual;
}

std::atomic<int> chosen_threads{0};  // 0: not asked for yet

/// A part of the third level, but no more than goes with the threads' own: others use it too.
int64_t kept_bytes() {
  const int64_t own = level2_bytes() * num_threads();
  return std::max(2 * own, std::min(8 * own, level3_bytes() / 2));
}

}  // namespace

int num_threads() {
  int chosen = chosen_threads;
  if (chosen) return chosen;
  const int found = default_threads();
  return chosen_threads.compare_exchange_strong(chosen, found) ? found : chosen;
}

void set_num_threads(int n) { chosen_threads = std::clamp(n, 1, kMaxThreads); }

bool is_streamed(int64_t bytes) {
  return bytes >= stream_bytes(2 * level2_bytes() * num_threads());
}

bool is_copy_streamed(int64_t bytes) { return bytes >= stream_bytes(kept_bytes()); }

bool is_norm_streamed(int64_t bytes) { return bytes >= stream_bytes(kept_bytes() / 4 * 3); }

void parallel_ranges(int64_t tasks, int64_t bytes, Task task, const void* context) {
  if (tasks <= 0) return;
  if (!reserve_arena()) throw std::bad_alloc();  // nothing is written yet
  const Job job(task, context, tasks, bytes);
  const int64_t useful = std::min(tasks, bytes / kBytesPerThread);
  const int threads = int(std::min<int64_t>(num_threads(), useful));
  if (threads > 1 && run_on_threads(job, threads, threads == num_threads())) return;
  job.run_range(0, tasks);
  fence_stores();
}

}  // namespace cudml::cpu
