// Ending a call before its work is done.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace cudml::cpu {

/// Leaves a call that is not wanted any more. What it has written until then is undefined.
struct Interrupted {};

/// While it lives, this thread's work asks now and then whether to go on. Threads that take part
/// in the work learn the answer from it.
class Watch {
 public:
  /// `ask` is called with `context` on this thread only, every kPeriod; true ends the call.
  using Ask = bool (*)(void* context);
  Watch(Ask ask, void* context);
  ~Watch();
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

  /// The watch that this thread's work stands under, or null.
  static Watch* current();

  /// Puts the work of another thread under a watch that lives until then.
  class Member {
   public:
    explicit Member(Watch* watch);
    ~Member();
    Member(const Member&) = delete;
    Member& operator=(const Member&) = delete;

   private:
    Watch* const before_;
  };

  void check();

 private:
  static constexpr auto kPeriod = std::chrono::milliseconds(50);
  using Clock = std::chrono::steady_clock;

  bool ask();

  const Ask ask_;
  void* const context_;
  Watch* const before_;
  Clock::time_point next_ = Clock::now() + kPeriod;
  std::atomic<bool> has_ended_{false};
};

/// Throws Interrupted where the call that this thread works for is to end. Some ten nanoseconds.
void checkpoint();

/// A checkpoint for work on so many elements, where that makes it worth looking.
inline void checkpoint_for(int64_t elements) {
  if (elements >= 1 << 14) checkpoint();
}

/// A checkpoint for every kElements that a long loop has gone through.
class Pace {
 public:
  void add(int64_t elements) {
    if ((left_ -= elements) > 0) return;
    left_ = kElements;
    checkpoint();
  }

 private:
  static constexpr int64_t kElements = 1 << 16;  // 10 us to 10 ms of work
  int64_t left_ = kElements;
};

}  // namespace cudml::cpu
