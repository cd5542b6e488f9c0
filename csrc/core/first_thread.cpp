// Which thread a process began with, asked of the system once.
#include "core/first_thread.h"

#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace cudml {
namespace {

enum class Answer : char { none, yes, no };

thread_local constinit Answer known = Answer::none;

/// The thread that has forked may get another answer.
const bool is_told_of_forks = pthread_atfork(nullptr, nullptr, [] { known = Answer::none; }) == 0;

}  // namespace

bool is_first_thread() {
  if (known == Answer::none || !is_told_of_forks)
    known = getpid() == pid_t(syscall(SYS_gettid)) ? Answer::yes : Answer::no;
  return known == Answer::yes;
}

}  // namespace cudml
