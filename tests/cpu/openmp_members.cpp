// Who is moved off the caller's processor: a member that waits for it, while it is one.
#include "cpu/threads/openmp_members.cpp"

#include <cstdio>
#include <thread>

namespace {

using cudml::cpu::OpenMpMembers;

cpu_set_t processors(int first, int second) {
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  CPU_SET(first, &cpus);
  CPU_SET(second, &cpus);
  return cpus;
}

/// Whether a call moves a thread that waits for this one's processor and might use another.
bool is_moved(OpenMpMembers& members, pid_t thread, int here, int other) {
  const cpu_set_t one = processors(here, here), two = processors(here, other);
  sched_setaffinity(thread, sizeof one, &one);
  members.are_awake();
  sched_setaffinity(thread, sizeof two, &two);
  members.begin();
  cpu_set_t now;
  sched_getaffinity(thread, sizeof now, &now);
  members.end();
  return !CPU_EQUAL(&now, &two);
}

int run() {
  cpu_set_t all;
  sched_getaffinity(0, sizeof all, &all);
  int here = 0, other = CPU_SETSIZE - 1;
  while (!CPU_ISSET(here, &all)) ++here;
  while (!CPU_ISSET(other, &all)) --other;
  if (here == other) return std::puts("one processor"), 0;
  const cpu_set_t one = processors(here, here);
  sched_setaffinity(0, sizeof one, &one);
  OpenMpMembers members;
  std::atomic<int> calls{0}, noted{0};
  std::atomic<bool> is_over{false};
  std::atomic<pid_t> thread{0};
  std::thread member([&] {
    thread = pid_t(syscall(SYS_gettid));
    while (!is_over)
      if (noted < calls) {
        members.note();
        noted = calls.load();
      }
  });
  bool is = false;
  for (int call = 1; call < 100 && !is; ++call) {
    calls = call;
    while (noted < call) std::this_thread::yield();
    is = is_moved(members, thread, here, other);
  }
  const bool is_still = is_moved(members, thread, here, other);  // the team is without it now
  is_over = true;
  member.join();
  return std::puts(!is ? "never moved" : is_still ? "moved for ever" : "good"), 0;
}

}  // namespace

int main() { return run(); }
