// The OpenMP runtime that another library has brought into the process, if there is one.
#pragma once

namespace cudml::cpu {

/// Runs work(context) on `threads` threads of that runtime, this one among them, and returns once
/// all have ended; `work` must not throw. Its threads go on spinning after other libraries' work,
/// so that any others would wait for a core.
///
/// False, with nothing done, where there is no runtime; where its threads are asleep, which the
/// pool's own wake faster from, or late; where its team is not this thread's to use: away from the
/// process's first thread, where it would start another team; inside a parallel region; in a forked
/// child, which may have lost the team; where a team has another size, as it would be started anew
/// for each size; and with CUDML_THREADS=own.
bool run_on_openmp(void (*work)(void*), void* context, int threads);

}  // namespace cudml::cpu
