// The threads of an OpenMP team: whether they are on a processor, and on which.
#pragma once

#include <sched.h>
#include <sys/types.h>

#include <atomic>
#include <cstdint>

namespace cudml::cpu {

/// The members besides the calling thread, as far as they are looked at: all of them begin to spin
/// and fall asleep at about the same time.
class OpenMpMembers {
 public:
  /// Whether all are spinning or wait for a processor. True where they are not known, or are others
  /// by now: a call that takes them along finds out.
  bool are_awake();

  /// Around a call that takes them along. Until it ends, one that waits for the processor of this
  /// thread is sent to others: both would hold each other up for many milliseconds.
  void begin();
  void end();

  /// Each member, once a call.
  void note();

 private:
  static constexpr int kMost = 4;

  struct Member {
    pid_t thread = 0;
    int64_t slept_at = -1;  // its processor time when it was last seen asleep
    bool is_waiting = false;
    pid_t moved = 0;  // the thread, while it is
    cpu_set_t cpus;   // its own choice of processors
  };

  static bool is_awake(Member& member);

  std::atomic<int> noted_{0};
  Member member_[kMost];
};

}  // namespace cudml::cpu
