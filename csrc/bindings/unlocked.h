// Work without the interpreter lock.
#pragma once

#include <pybind11/pybind11.h>
#include <unistd.h>

namespace cudml::bindings {

/// Releases the interpreter lock while it lives.
///
/// CPython before 3.14 ends a daemon thread that wants the lock back while the interpreter shuts
/// down by unwinding its stack. That would destroy Python objects without the lock and terminate
/// the process at the first destructor, so such a thread waits here for the process to end.
class Unlocked {
 public:
  Unlocked() : state_(PyEval_SaveThread()) {}
  ~Unlocked() {
    try {
      PyEval_RestoreThread(state_);
    } catch (...) {
      for (;;) pause();
    }
  }
  Unlocked(const Unlocked&) = delete;
  Unlocked& operator=(const Unlocked&) = delete;

 private:
  PyThreadState* state_;
};

}  // namespace cudml::bindings
