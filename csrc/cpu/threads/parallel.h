// Threads: one pool, one way to use it.
#pragma once

#include <cstdint>
#include <type_traits>

namespace cudml::cpu {

/// Threads a large call uses: set_num_threads, else CUDML_NUM_THREADS, else OMP_NUM_THREADS, else
/// the CPUs this process may use (affinity and cgroup quota).
int num_threads();
void set_num_threads(int n);

/// Whether outputs of so many bytes are written past the caches, and inputs of so many bytes read
/// ahead: from twice the second-level caches of the threads on, or from CUDML_STREAM_BYTES.
bool is_streamed(int64_t bytes);

/// The same for operators whose outputs are as large as their inputs: what a third level keeps of
/// those is worth more than what the stores past it save.
bool is_copy_streamed(int64_t bytes);

/// The same for normalization, which reads its input twice and computes meanwhile: its stores past
/// the caches pay sooner.
bool is_norm_streamed(int64_t bytes);

/// Runs task(context, begin, end) over disjoint ranges that cover [0, tasks).
void parallel_ranges(int64_t tasks, int64_t bytes,
                     void (*task)(const void* context, int64_t begin, int64_t end),
                     const void* context);

/// Calls body(begin, end) over disjoint ranges that cover [0, tasks), from several threads where
/// the whole call moves enough `bytes` to pay for waking them. The partition must not reach the
/// results: a task computes the same whatever range it stands in. Stores past the caches are fenced
/// at the end of each part. The first exception that leaves
/// `body` is rethrown on the calling thread once all ranges have ended.
template <class Body>
void parallel_for(int64_t tasks, int64_t bytes, const Body& body) {
  static_assert(std::is_invocable_v<const Body&, int64_t, int64_t>);
  parallel_ranges(
      tasks, bytes,
      [](const void* context, int64_t begin, int64_t end) {
        (*static_cast<const Body*>(context))(begin, end);
      },
      &body);
}

}  // namespace cudml::cpu
