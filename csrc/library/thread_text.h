// Texts that callers get a pointer to.
#pragma once

#include <memory>
#include <new>
#include <string>
#include <utility>

#include "core/thread_end.h"

namespace cudml::library {

/// A text of a kind for each thread, which ends with the thread; that of the first one stays for
/// the destructors of global objects.
template <class Kind>
class ThreadText {
 public:
  /// This thread's, or std::bad_alloc.
  static std::string& here() {
    if (!text_) {
      auto made = std::make_unique<std::string>();
      if (!at_end_.remember(made.get())) throw std::bad_alloc();
      text_ = made.release();
    }
    return *text_;
  }

 private:
  static constinit inline thread_local std::string* text_ = nullptr;
  static inline const ThreadEnd at_end_{[](void*) { delete std::exchange(text_, nullptr); }};
};

}  // namespace cudml::library
