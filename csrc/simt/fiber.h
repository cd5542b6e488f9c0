// Fibers: stacks with a guard page, and the switch from one to another.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace cudml::simt {

/// A place of execution: a stack of its own, or the host thread that launched (no stack here).
/// Sanitizers know it by the bounds of its stack and by ThreadSanitizer's own fiber.
struct Fiber {
  void* saved = nullptr;  // the stack pointer while it does not run
  const void* bottom = nullptr;
  size_t bytes = 0;
  void* fake_stack = nullptr;  // AddressSanitizer's
  void* tsan = nullptr;
};

/// Makes `fiber` begin anew: the first switch to it calls `entry`, which never returns.
void prepare(Fiber& fiber, void (*entry)());

/// Saves this place in `from` and goes on at `to`; returns when something switches to `from`.
/// `is_last`: nothing ever will.
void switch_fiber(Fiber& from, Fiber& to, bool is_last);

/// To be called first in `entry`.
void enter_fiber();

/// Stacks, the one used last first. With ThreadSanitizer each in turn: neighbouring blocks share no
/// fiber, since whatever a fiber saw in an earlier block would count as ordered.
class FiberPool {
 public:
  /// Provides for `count` fibers at once; called while no fiber runs.
  void reserve(size_t count);
  Fiber* take();
  void give(Fiber* fiber);
  /// Forgets what abandoned fibers left on their stacks; called while no fiber runs.
  void reset();

 private:
  std::vector<Fiber> fibers_;
  std::vector<Fiber*> free_;       // ordinary builds
  size_t next_ = 0, in_turn_ = 0;  // ThreadSanitizer
};

}  // namespace cudml::simt
