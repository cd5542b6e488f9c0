// On which processors workers run.
#pragma once

#include <pthread.h>

namespace cudml::cpu {

/// Keeps workers off the processor of the thread that calls. A system may wake a worker right there
/// and leave it waiting for milliseconds, above all where processors are virtual: one that sleeps
/// is taken for one that its host has withdrawn.
class Placement {
 public:
  /// Of many workers some always wake elsewhere; that many system calls would take longer.
  static constexpr int kMost = 16;

  void add(pthread_t worker) {
    if (count_ < kMost) worker_[count_] = worker;
    ++count_;
    caller_ = -1;
  }

  /// Cheap while the caller stays where it was.
  void keep_off_caller();

 private:
  pthread_t worker_[kMost];
  int count_ = 0;
  int caller_ = -1;           // the processor that they were last kept off
  bool is_confined_ = false;  // that one is all that the caller may use, until it may use others
};

}  // namespace cudml::cpu
