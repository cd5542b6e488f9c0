// Work without the interpreter lock, and how it ends early.
#pragma once

#include <pybind11/pybind11.h>
#include <unistd.h>

#include <optional>

#include "core/first_thread.h"
#include "cpu/threads/interrupt.h"

namespace cudml::bindings {

/// Releases the interpreter lock while it lives.
///
/// CPython before 3.14 ends a daemon thread that wants the lock back while the interpreter shuts
/// down by unwinding its stack. That would destroy Python objects without the lock and terminate
/// the process at the first destructor, so such a thread waits here for the process to end.
class Unlocked {
 public:
  Unlocked() : state_(PyEval_SaveThread()) {}
  ~Unlocked() { take_back(); }
  Unlocked(const Unlocked&) = delete;
  Unlocked& operator=(const Unlocked&) = delete;

  /// Has the interpreter run the handlers of signals that have come in, which it does on its first
  /// thread only. True where one of them raises: Python's error is set then.
  bool is_interrupted() {
    take_back();
    const bool is = PyErr_CheckSignals() != 0;
    state_ = PyEval_SaveThread();
    return is;
  }

 private:
  void take_back() noexcept {
    try {
      PyEval_RestoreThread(state_);
    } catch (...) {
      for (;;) pause();
    }
  }

  PyThreadState* state_;
};

/// Lets signals end what this thread works on: cpu::Interrupted then leaves it.
class Interruptible {
 public:
  explicit Interruptible(Unlocked& unlocked) {
    if (!is_first_thread()) return;
    watch_.emplace([](void* lock) { return static_cast<Unlocked*>(lock)->is_interrupted(); },
                   &unlocked);
  }

 private:
  std::optional<cpu::Watch> watch_;
};

}  // namespace cudml::bindings
