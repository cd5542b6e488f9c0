// Texts that callers get a pointer to.
#pragma once

#include <string>
#include <utility>

namespace cudml::library {

/// This thread's text of a kind, which ends with the thread. Destructors of global objects come
/// after that of the first thread: they get another one, which stays.
template <class Kind>
std::string& thread_text() {
  static constinit thread_local std::string* text = nullptr;
  struct End {
    ~End() { delete std::exchange(text, nullptr); }
  };
  if (!text) {
    text = new std::string;
    static thread_local const End end;
  }
  return *text;
}

}  // namespace cudml::library
