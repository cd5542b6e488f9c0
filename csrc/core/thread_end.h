// What is to be done as a thread ends.
#pragma once

#include <pthread.h>

#include <cerrno>

namespace cudml {

/// Calls a function with what each thread has it remember, as that thread ends. The destructor of a
/// thread_local object would come then, too, but the C library ends a process that has no memory
/// left to remember it. To be made as the library is loaded, where no fork comes in between.
class ThreadEnd {
 public:
  explicit ThreadEnd(void (*end)(void*)) : is_made_(pthread_key_create(&key_, end) == 0) {}
  /// Threads that go on after the library keep what they have.
  ~ThreadEnd() {
    if (is_made_) pthread_key_delete(key_);
  }
  ThreadEnd(const ThreadEnd&) = delete;
  ThreadEnd& operator=(const ThreadEnd&) = delete;

  /// False where there is no memory; without a key, what was to end stays.
  bool remember(void* memory) const {
    return !is_made_ || pthread_setspecific(key_, memory) != ENOMEM;
  }

 private:
  pthread_key_t key_;
  bool is_made_;
};

}  // namespace cudml
