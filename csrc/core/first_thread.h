// The thread that a process began with.
#pragma once

#include <sys/syscall.h>
#include <unistd.h>

namespace cudml {

/// Whether this is it. Asked of the system once for each thread, so that in a child forked by
/// another thread none is.
inline bool is_first_thread() {
  thread_local const bool is_first = getpid() == pid_t(syscall(SYS_gettid));
  return is_first;
}

}  // namespace cudml
