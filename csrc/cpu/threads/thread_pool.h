// The threads that share a call's work.
#pragma once

#include <algorithm>
#include <cstdint>

namespace cudml::cpu {

using Task = void (*)(const void* context, int64_t begin, int64_t end);

/// Tasks [0, tasks) of one call of parallel_ranges, which move `bytes` together.
struct Job {
  Job(Task run, const void* of, int64_t count, int64_t total_bytes)
      : task(run), context(of), tasks(count), bytes(total_bytes) {
    step = std::max<int64_t>(1, kStepBytes / std::max<int64_t>(1, bytes / tasks));
  }

  /// In steps between which the call may be ended early.
  void run_range(int64_t begin, int64_t end) const;

  Task task;
  const void* context;
  int64_t tasks, bytes;

 private:
  static constexpr int64_t kStepBytes = 8 << 20;  // a millisecond or more
  int64_t step;
};

/// Runs the job on at most `threads` threads, which is two or more. `are_all`: no call uses more.
/// False, with nothing done, where the threads are busy with another thread's call, or this is a
/// call from inside one. The first exception of a task is rethrown here, and ends the job early.
bool run_on_threads(const Job& job, int threads, bool are_all);

}  // namespace cudml::cpu
