// Texts that came from outside, as messages show them.
#include "core/shown.h"

#include <algorithm>
#include <cstdint>

namespace cudml {
namespace {

bool is_continuation(char c) { return (static_cast<unsigned char>(c) & 0xc0) == 0x80; }

/// Bytes of the UTF-8 character that a text begins with; 0 where it begins with none, or with a
/// control character of more than one.
size_t character_size(std::string_view text) {
  const auto lead = static_cast<unsigned char>(text[0]);
  if (lead < 0x80) return 1;
  const size_t size = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  if (lead < 0xc2 || lead > 0xf4 || text.size() < size) return 0;
  uint32_t code = lead & (0xffu >> (size + 1));
  for (size_t i = 1; i < size; ++i) {
    if (!is_continuation(text[i])) return 0;
    code = code << 6 | (static_cast<unsigned char>(text[i]) & 0x3fu);
  }
  const uint32_t least = size == 4 ? 0x10000 : size == 3 ? 0x800 : 0xa0;
  const bool is_surrogate = code >= 0xd800 && code <= 0xdfff;
  return code >= least && code <= 0x10ffff && !is_surrogate ? size : 0;
}

}  // namespace

std::string shown(std::string_view text) {
  constexpr size_t kLongest = 160, kLongestCharacter = 4;  // bytes
  constexpr const char* kDigits = "0123456789abcdef";
  std::string result;
  size_t at = 0;
  while (at < text.size()) {
    const std::string_view rest = text.substr(at, kLongestCharacter);
    const size_t size = character_size(rest);
    if (at + std::max<size_t>(size, 1) > kLongest) return result + "…";
    const auto code = static_cast<unsigned char>(rest[0]);
    if (size && code >= 0x20 && code != 0x7f)
      result += rest.substr(0, size);
    else
      result += {'\\', 'x', kDigits[code >> 4], kDigits[code & 15]};
    at += std::max<size_t>(size, 1);
  }
  return result;
}

}  // namespace cudml
