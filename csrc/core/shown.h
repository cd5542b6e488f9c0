// How a message shows a text that came from outside.
#pragma once

#include <string>
#include <string_view>

namespace cudml {

/// Cut where it is long, and as UTF-8 without control characters, which a NUL among them would end:
/// these, and bytes that are no UTF-8, are escaped.
std::string shown(std::string_view text);

}  // namespace cudml
