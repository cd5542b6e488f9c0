// What the system says of other threads.
#include "cpu/threads/openmp_members.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>

namespace cudml::cpu {
namespace {

/// Processor time in ns up to this very moment; negative where there is no such thread.
int64_t spent(pid_t thread) {
  constexpr unsigned kOfThread = 4, kScheduled = 2;  // as pthread_getcpuclockid makes them
  const auto clock = clockid_t((~unsigned(thread) << 3) | kOfThread | kScheduled);
  timespec t;
  return clock_gettime(clock, &t) ? -1 : t.tv_sec * int64_t(1000000000) + t.tv_nsec;
}

/// Whether a thread runs or waits for a processor, rather than for anything else.
bool is_runnable(pid_t thread) {
  char path[64], text[256];
  std::snprintf(path, sizeof path, "/proc/self/task/%d/stat", int(thread));
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return false;
  const ssize_t n = read(file, text, sizeof text - 1);
  close(file);
  text[std::max<ssize_t>(n, 0)] = 0;
  const char* const name_end = std::strrchr(text, ')');
  return name_end && std::strncmp(name_end, ") R", 3) == 0;
}

}  // namespace

bool OpenMpMembers::is_awake(Member& member) {
  const int64_t now = spent(member.thread);
  member.is_waiting = false;
  if (now < 0 || spent(member.thread) != now) return true;
  // Looking closer takes ten microseconds: not again while it has not run.
  if (now == member.slept_at) return false;
  if (!is_runnable(member.thread)) {
    member.slept_at = now;
    return false;
  }
  member.is_waiting = true;
  return true;
}

bool OpenMpMembers::are_awake() {
  bool are = true;
  const int noted = noted_.load(std::memory_order_relaxed);
  for (int i = 0; i < kMost; ++i)
    if (i < noted)
      are &= is_awake(member_[i]);
    else
      member_[i].is_waiting = false;  // of a larger team: it may have ended, and its number be used
  return are;
}

void OpenMpMembers::begin() {
  const int here = sched_getcpu();
  for (Member& m : member_) {
    m.moved = 0;
    if (!m.is_waiting || here < 0 || sched_getaffinity(m.thread, sizeof m.cpus, &m.cpus)) continue;
    cpu_set_t others = m.cpus;
    CPU_CLR(here, &others);
    if (CPU_COUNT(&others) > 0 && !sched_setaffinity(m.thread, sizeof others, &others))
      m.moved = m.thread;
  }
  noted_.store(0, std::memory_order_relaxed);
}

void OpenMpMembers::end() {
  for (Member& m : member_)
    if (m.moved) sched_setaffinity(m.moved, sizeof m.cpus, &m.cpus);
}

void OpenMpMembers::note() {
  thread_local const pid_t here = pid_t(syscall(SYS_gettid));
  const int i = noted_.fetch_add(1, std::memory_order_relaxed);
  if (i < kMost && member_[i].thread != here) {
    member_[i].thread = here;
    member_[i].slept_at = -1;
  }
}

}  // namespace cudml::cpu
