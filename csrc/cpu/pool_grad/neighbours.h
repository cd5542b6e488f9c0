// Lanes and their neighbours: vectors moved by one, and two of them that take turns.
#pragma once

#include "cpu/simd/interleave.h"
#include "cpu/simd/lanes.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

template <class V, int... i>
inline Vector<V> ascending(std::integer_sequence<int, i...>) {
  return Vector<V>{i...};
}

/// 0, 1, 2, …
template <class V>
inline Vector<V> ascending() {
  return ascending<V>(std::make_integer_sequence<int, int(kLanes<V>)>{});
}

/// The lanes one before those of `now`.
template <class V>
V one_before(const V& before, const V& now) {
  return pick<int(sizeof(V) / sizeof(V{}[0])) - 1, 1>(before, now, kLanesOf<V>);
}

/// The lanes one behind those of `now`.
template <class V>
V one_after(const V& now, const V& next) {
  return pick<1, 1>(now, next, kLanesOf<V>);
}

/// Lanes of a and b in turn, rounded to T.
template <class T, class V>
void store_pairs(T* dst, const V& a, const V& b) {
  store_floats(dst, interleaved<0>(a, b, kLanesOf<V>));
  store_floats(dst + sizeof(V) / sizeof(V{}[0]), interleaved<1>(a, b, kLanesOf<V>));
}

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
