// Planes that lie one after the other in memory, put side by side and taken back.
#pragma once

#include <algorithm>
#include <cstdint>

namespace cudml::cpu::CUDML_ISA {

/// Planes of `n` packed elements that lie `pitch` apart, of which `count` exist. E is an unsigned
/// integer of the elements' size.
template <class E>
struct Planes {
  E* at;
  int64_t pitch, n, count;

  /// Those beyond the last one are the last one again.
  E* plane(int64_t i) const { return at + std::min(i, count - 1) * pitch; }
};

/// Puts planes side by side: element i of plane k becomes to[i * lanes + k]. There are `lanes` of
/// them, whole vectors of elements; those behind the last plane are the last one again. As many
/// planes behind these are fetched.
template <class E>
void turn_in(const Planes<const E>& planes, int64_t lanes, E* to);

/// Takes planes back from beside each other; lanes behind the last plane are left.
template <class E>
void turn_out(const Planes<E>& planes, int64_t lanes, const E* from);

}  // namespace cudml::cpu::CUDML_ISA
