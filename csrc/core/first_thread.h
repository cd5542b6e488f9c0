// The thread that a process began with.
#pragma once

namespace cudml {

/// Whether this is it; in a forked child, whether it is the one that forked. Some nanoseconds.
bool is_first_thread();

}  // namespace cudml
