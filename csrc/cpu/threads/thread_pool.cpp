// Workers that wait for the next job, each with a part of its own, then stealing.
#include "cpu/threads/thread_pool.h"

#include <pthread.h>
#include <signal.h>

#include <atomic>
#include <chrono>
#include <exception>
#include <new>
#include <thread>

#include "core/environment.h"
#include "cpu/memory/tuning.h"
#include "cpu/simd/fence.h"
#include "cpu/simd/float_state.h"
#include "cpu/threads/arena.h"
#include "cpu/threads/interrupt.h"
#include "cpu/threads/openmp.h"
#include "cpu/threads/placement.h"

namespace cudml::cpu {
namespace {

using tuning::threads::kBytesOfLarge;
using tuning::threads::kTasksOfLarge;
constexpr auto kSpin = std::chrono::microseconds(tuning::threads::kSpinMicroseconds);

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

/// A job cut into `parts` equal ranges, and each into grains.
class Shares {
 public:
  void begin(const Job& job, int parts) {
    job_ = &job;
    watch_ = Watch::current();
    parts_ = parts;
    const bool is_large = job.bytes / parts >= kBytesOfLarge && job.tasks / parts >= kTasksOfLarge;
    grains_ = is_large ? &kShrinking : &kEqual;
    for (int part = 0; part < parts; ++part) cursor_[part].next.store(0, std::memory_order_relaxed);
  }

  int parts() const { return parts_; }

  /// Own part first: it is the one whose memory this core touched last time.
  void run(int part) noexcept {
    const Watch::Member member(watch_);
    try {
      for (int i = 0; i < parts_; ++i) run_part((part + i) % parts_);
      fence_stores();
    } catch (...) {
      if (!has_failed_.exchange(true)) error_ = std::current_exception();
    }
  }

  std::exception_ptr end() {
    const std::exception_ptr error = has_failed_.exchange(false) ? error_ : nullptr;
    error_ = nullptr;
    return error;
  }

 private:
  int64_t begin_of(int64_t part) const {
    return job_->tasks / parts_ * part + std::min(part, job_->tasks % parts_);
  }

  void run_part(int part) {
    const int64_t begin = begin_of(part), size = begin_of(part + 1) - begin;
    const int64_t whole = size / Grains::kWhole, rest = size % Grains::kWhole;
    const auto bound = [&](int64_t end) {
      return begin + whole * end + rest * end / Grains::kWhole;
    };
    for (int grain;
         !has_failed_.load(std::memory_order_relaxed) &&
         (grain = cursor_[part].next.fetch_add(1, std::memory_order_relaxed)) < grains_->count;)
      job_->run_range(bound(grains_->end[grain]), bound(grains_->end[grain + 1]));
  }

  const Job* job_ = nullptr;
  Watch* watch_ = nullptr;
  int parts_ = 0;
  const Grains* grains_ = &kEqual;
  Cursor cursor_[kMaxThreads];
  std::atomic<bool> has_failed_{false};
  std::exception_ptr error_;
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

/// Lets threads into a job while it is open.
class Gate {
 public:
  void open() { state_.store(kOpen, std::memory_order_release); }

  bool enter() {
    int state = state_.load(std::memory_order_relaxed);
    while (state & kOpen)
      if (state_.compare_exchange_weak(state, state + 1, std::memory_order_acquire)) return true;
    return false;
  }
  void leave() {
    if (state_.fetch_sub(1, std::memory_order_acq_rel) == 1) state_.notify_one();
  }

  /// Waits for those inside. One that has not woken up yet stays outside, so a busy core never
  /// delays the call.
  void close() {
    for (int inside = state_.fetch_and(~kOpen, std::memory_order_acq_rel) & ~kOpen; inside > 0;
         inside = state_.load(std::memory_order_acquire))
      await_change(state_, inside);
  }

 private:
  static constexpr int kOpen = 1 << 30;

  std::atomic<int> state_{0};  // kOpen while a job may be entered, plus the threads inside
};

thread_local constinit bool is_inside = false;  // this thread has called the pool

class Pool {
 public:
  bool run(const Job& job, int threads, bool are_all) {
    if (busy_.test_and_set(std::memory_order_acquire)) return false;
    is_inside = true;
    if (!are_all || !run_on_team(job, threads)) run_on_workers(job, threads);
    const std::exception_ptr error = shares_.end();
    is_inside = false;
    busy_.clear(std::memory_order_release);
    if (error) std::rethrow_exception(error);
    return true;
  }

  /// Has others end what they have begun of a job, and begin no more of it.
  void close() {
    workers_gate_.close();
    team_gate_.close();
  }

  /// In a child that the caller's thread has forked inside of its job, which goes on without them.
  void forget_workers() {
    workers_ = 0;
    placement_ = {};
  }

 private:
  void run_on_workers(const Job& job, int threads) {
    shares_.begin(job, std::min(threads, 1 + grow(threads - 1)));
    placement_.keep_off_caller();
    workers_gate_.open();
    epoch_.fetch_add(1, std::memory_order_release);
    epoch_.notify_all();
    shares_.run(0);  // all grains are taken then
    workers_gate_.close();
  }

  /// On the threads of an OpenMP runtime. Members of its team get parts in the order they come in,
  /// but the calling thread keeps its own.
  bool run_on_team(const Job& job, int threads) {
    shares_.begin(job, threads);
    caller_ = pthread_self();
    members_.store(0, std::memory_order_relaxed);
    team_gate_.open();
    const bool has_run = run_on_openmp(
        [](void* context) {
          Pool& pool = *static_cast<Pool*>(context);
          if (!reserve_arena()) return;  // the caller, which has one, runs all parts then
          const FloatState state;
          if (pthread_equal(pthread_self(), pool.caller_)) return pool.shares_.run(0);
          if (!pool.team_gate_.enter()) return;
          pool.shares_.run(1 + pool.members_.fetch_add(1));
          pool.team_gate_.leave();
        },
        this, threads);
    team_gate_.close();
    return has_run;
  }

  /// Starts workers up to `wanted`; returns how many there are, fewer where the system refuses.
  int grow(int wanted) {
    if (workers_ >= wanted) return workers_;
    sigset_t all, old;  // signals are the interpreter's business: workers take none
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    try {
      for (; workers_ < wanted; ++workers_) {
        std::thread worker(&Pool::work, this, workers_ + 1, epoch_.load());
        placement_.add(worker.native_handle());
        worker.detach();
      }
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
      if (!reserve_arena() || !workers_gate_.enter()) continue;
      if (part < shares_.parts()) shares_.run(part);
      workers_gate_.leave();
    }
  }

  std::atomic_flag busy_;
  Shares shares_;
  int workers_ = 0;
  Placement placement_;
  std::atomic<uint32_t> epoch_{0};
  Gate workers_gate_, team_gate_;
  pthread_t caller_{};
  std::atomic<int> members_{0};  // of an OpenMP team, besides the caller
};

alignas(Pool) std::byte memory[sizeof(Pool)];

/// A handler of a signal may fork in the middle of its thread's own job: what others have begun of
/// it they end before.
void before_fork() {
  if (is_inside) std::launder(reinterpret_cast<Pool*>(memory))->close();
}

/// A forked child has none of its parent's threads, so it starts over with a new pool, in the same
/// place as there may be no memory.
void in_child() {
  if (is_inside)
    std::launder(reinterpret_cast<Pool*>(memory))->forget_workers();
  else
    new (memory) Pool;
}

// Never destroyed: workers sleep in it until the process ends. Made as the library is loaded: a
// child that is forked while another thread initializes something waits for that for ever. Null
// where forks cannot be arranged for.
Pool* const pool =
    pthread_atfork(before_fork, nullptr, in_child) == 0 ? new (memory) Pool : nullptr;

}  // namespace

void Job::run_range(int64_t begin, int64_t end) const {
  for (int64_t to; begin < end; begin = to) {
    to = end - begin > step ? begin + step : end;
    checkpoint();
    task(context, begin, to);
  }
}

bool run_on_threads(const Job& job, int threads, bool are_all) {
  return pool && pool->run(job, threads, are_all);
}

}  // namespace cudml::cpu
