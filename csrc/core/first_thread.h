// The thread that a process began with.
#pragma once

#include <sys/syscall.h>
#include <unistd.h>

namespace cudml {

/// Whether this is it; in a forked child, the one that forked.
inline bool is_first_thread() { return getpid() == pid_t(syscall(SYS_gettid)); }

}  // namespace cudml
