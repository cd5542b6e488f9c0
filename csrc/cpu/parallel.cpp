// The thread pool: workers that wait for the next job, each with a part of its own, then stealing.
#include "cpu/parallel.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <string>
#include <thread>

#include "core/environment.h"
#include "core/float_state.h"

namespace cudml::cpu {
namespace {

constexpr int64_t kBytesPerThread = 64 * 1024;  // fewer: waking a thread costs more than it saves
/// A part's, from which on its last grains are small. Some kernels take a few tasks at once.
constexpr int64_t kBytesOfLarge = 1 << 20, kTasksOfLarge = 32;
constexpr auto kSpin = std::chrono::microseconds(20);

/// Orders a thread's stores past the caches before whatever says that its part is done.
void fence_stores() {
#if defined(__x86_64__)
  __builtin_ia32_sfence();
#endif
}

using Task = void (*)(const void*, int64_t, int64_t);

struct alignas(64) Cursor {
  std::atomic<int> next{0};
};

/// The pieces of a part, which others may steal: where each ends, in 64ths of the part.
struct Grains {
  static constexpr int kMost = 8, kWhole = 64;
  int count;
  int64_t end[1 + kMost];  // the first is the part's begin
};

/// One core may be half as fast as another: the last grain, for which the others wait, is small.
constexpr Grains kShrinking{8, {0, 24, 40, 50, 56, 60, 62, 63, 64}};
constexpr Grains kEqual{4, {0, 16, 32, 48, 64}};

/// One call of parallel_ranges: `parts` equal ranges, each cut into grains.
struct Job {
  Task task = nullptr;
  const void* context = nullptr;
  int64_t tasks = 0;
  int parts = 0;
  const Grains* grains = &kEqual;
  Cursor cursor[kMaxThreads];
  std::atomic<bool> failed{false};
  std::exception_ptr error;

  int64_t begin_of(int64_t part) const {
    return tasks / parts * part + std::min(part, tasks % parts);
  }

  void run_part(int part) {
    const int64_t begin = begin_of(part), size = begin_of(part + 1) - begin;
    const int64_t whole = size / Grains::kWhole, rest = size % Grains::kWhole;
    const auto bound = [&](int64_t end) {
      return begin + whole * end + rest * end / Grains::kWhole;
    };
    for (int grain;
         (grain = cursor[part].next.fetch_add(1, std::memory_order_relaxed)) < grains->count;) {
      const int64_t from = bound(grains->end[grain]), to = bound(grains->end[grain + 1]);
      if (from < to) task(context, from, to);
    }
  }

  /// Own part first: it is the one whose memory this core touched last time.
  void run(int part) {
    try {
      for (int i = 0; i < parts; ++i) run_part((part + i) % parts);
      fence_stores();
    } catch (...) {
      if (!failed.exchange(true)) error = std::current_exception();
    }
  }
};

/// Waits until `value` differs from `old`: spinning first, then asleep.
template <class T>
void await_change(const std::atomic<T>& value, T old) {
  const auto deadline = std::chrono::steady_clock::now() + kSpin;
  while (value.load(std::memory_order_acquire) == old) {
    if (std::chrono::steady_clock::now() > deadline)
      return value.wait(old, std::memory_order_acquire);
  }
}

class Pool {
 public:
  /// False where the pool is busy with another thread's call, or this is a call from inside one.
  bool run(Task task, const void* context, int64_t tasks, int64_t bytes, int threads) {
    if (busy_.test_and_set(std::memory_order_acquire)) return false;
    const int parts = std::min(threads, 1 + grow(threads - 1));
    job_.task = task;
    job_.context = context;
    job_.tasks = tasks;
    job_.parts = parts;
    const bool is_large = bytes / parts >= kBytesOfLarge && tasks / parts >= kTasksOfLarge;
    job_.grains = is_large ? &kShrinking : &kEqual;
    for (int part = 0; part < parts; ++part)
      job_.cursor[part].next.store(0, std::memory_order_relaxed);
    gate_.store(kOpen, std::memory_order_release);
    epoch_.fetch_add(1, std::memory_order_release);
    epoch_.notify_all();
    job_.run(0);
    // All grains are taken. Workers still inside are waited for; one that has not woken up yet
    // finds the gate closed, so a busy core never delays the call.
    for (int inside = gate_.fetch_and(~kOpen, std::memory_order_acq_rel) & ~kOpen; inside > 0;
         inside = gate_.load(std::memory_order_acquire))
      await_change(gate_, inside);
    const std::exception_ptr error = job_.failed.exchange(false) ? job_.error : nullptr;
    job_.error = nullptr;
    busy_.clear(std::memory_order_release);
    if (error) std::rethrow_exception(error);
    return true;
  }

 private:
  static constexpr int kOpen = 1 << 30;

  /// Starts workers up to `wanted`; returns how many there are, fewer where the system refuses.
  int grow(int wanted) {
    if (workers_ >= wanted) return workers_;
    sigset_t all, old;  // signals are the interpreter's business: workers take none
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    try {
      for (; workers_ < wanted; ++workers_)
        std::thread(&Pool::work, this, workers_ + 1, epoch_.load()).detach();
    } catch (const std::exception&) {
    }
    pthread_sigmask(SIG_SETMASK, &old, nullptr);
    return workers_;
  }

  void work(int part, uint32_t seen) {
    const FloatState state;  // not that of the call which started this thread
    for (;;) {
      await_change(epoch_, seen);
      seen = epoch_.load(std::memory_order_acquire);
      if (!enter()) continue;
      if (part < job_.parts) job_.run(part);
      if (gate_.fetch_sub(1, std::memory_order_acq_rel) == 1) gate_.notify_one();
    }
  }

  bool enter() {
    int gate = gate_.load(std::memory_order_relaxed);
    while (gate & kOpen)
      if (gate_.compare_exchange_weak(gate, gate + 1, std::memory_order_acquire)) return true;
    return false;
  }

  std::atomic_flag busy_;
  Job job_;
  int workers_ = 0;
  std::atomic<uint32_t> epoch_{0};
  std::atomic<int> gate_{0};  // kOpen while a job may be entered, plus the workers inside
};

// Never destroyed: workers sleep in it until the process ends. A forked child has none of its
// parent's threads, so it starts over with a new one.
Pool* pool() {
  static std::atomic<Pool*> instance{nullptr};
  static const int registered = [] {
    instance = new Pool;
    return pthread_atfork(nullptr, nullptr, [] { instance = new Pool; });
  }();
  (void)registered;
  return instance;
}

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

/// What one core has at the second level.
int64_t level2_bytes() {
  constexpr int64_t kUsual = 1 << 20;
#ifdef _SC_LEVEL2_CACHE_SIZE
  static const int64_t found = sysconf(_SC_LEVEL2_CACHE_SIZE);
  return found > 0 ? found : kUsual;
#else
  return kUsual;
#endif
}

/// What cores share at the third level, if there is one; virtual machines may make it up.
int64_t level3_bytes() {
#ifdef _SC_LEVEL3_CACHE_SIZE
  static const int64_t found = sysconf(_SC_LEVEL3_CACHE_SIZE);
  return std::max<int64_t>(found, 0);
#else
  return 0;
#endif
}

/// CUDML_STREAM_BYTES, or else `usual`.
int64_t stream_bytes(int64_t usual) {
  const int64_t forced = environment().stream_bytes;
  return forced >= 0 ? forced : usual;
}

std::atomic<int>& chosen_threads() {
  static std::atomic<int> n{default_threads()};
  return n;
}

/// A part of the third level, but no more than goes with the threads' own: others use it too.
int64_t kept_bytes() {
  const int64_t own = level2_bytes() * chosen_threads();
  return std::max(2 * own, std::min(8 * own, level3_bytes() / 2));
}

}  // namespace

int num_threads() { return chosen_threads(); }

void set_num_threads(int n) { chosen_threads() = std::clamp(n, 1, kMaxThreads); }

bool is_streamed(int64_t bytes) {
  return bytes >= stream_bytes(2 * level2_bytes() * num_threads());
}

bool is_copy_streamed(int64_t bytes) { return bytes >= stream_bytes(kept_bytes()); }

bool is_norm_streamed(int64_t bytes) { return bytes >= stream_bytes(kept_bytes() / 4 * 3); }

void parallel_ranges(int64_t tasks, int64_t bytes, Task task, const void* context) {
  if (tasks <= 0) return;
  const int64_t useful = std::min(tasks, bytes / kBytesPerThread);
  const int threads = int(std::min<int64_t>(num_threads(), useful));
  if (threads > 1 && pool()->run(task, context, tasks, bytes, threads)) return;
  task(context, 0, tasks);
  fence_stores();
}

}  // namespace cudml::cpu
