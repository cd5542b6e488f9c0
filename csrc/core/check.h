// Refusals: one function per exception class that Python shows, each joining its arguments to a
// text.
#pragma once

#include <locale>
#include <sstream>
#include <stdexcept>
#include <string>

namespace cudml {

/// An element type or kind of object that is not taken; Python's TypeError.
struct TypeError : std::invalid_argument {
  using std::invalid_argument::invalid_argument;
};

/// Writes numbers alike in every process: its global locale may group their digits.
struct TextStream : std::ostringstream {
  TextStream() { imbue(std::locale::classic()); }
};

template <class... Parts>
std::string join(const Parts&... parts) {
  TextStream text;
  (text << ... << parts);
  return text.str();
}

/// Python's ValueError: "<op>: <Field>[<index>] is <value>; <what is permitted>".
template <class... Parts>
[[noreturn]] void refuse(const Parts&... parts) {
  throw std::invalid_argument(join(parts...));
}

template <class... Parts>
[[noreturn]] void refuse_type(const Parts&... parts) {
  throw TypeError(join(parts...));
}

template <class... Parts>
void check(bool ok, const Parts&... parts) {
  if (!ok) refuse(parts...);
}

template <class... Parts>
void check_type(bool ok, const Parts&... parts) {
  if (!ok) refuse_type(parts...);
}

}  // namespace cudml
