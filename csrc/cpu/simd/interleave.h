// Lanes of two vectors that take turns.
#pragma once

#include <utility>

#include "cpu/simd/vector.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

template <class V>
constexpr auto kLanesOf = std::make_index_sequence<sizeof(V) / sizeof(V{}[0])>{};

/// One half of the lanes of a and b in turn, kHalf 0 or 1.
template <int kHalf, class V, size_t... i>
V interleaved(const V& a, const V& b, std::index_sequence<i...>) {
  constexpr int kCount = int(sizeof...(i));
  return __builtin_shufflevector(a, b, (kHalf * kCount / 2 + int(i) / 2 + int(i) % 2 * kCount)...);
}

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
