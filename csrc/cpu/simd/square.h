// Squares of elements, rows for columns.
#pragma once

#include <utility>

#include "cpu/simd/vector.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

/// Rows of a square, which all stay in registers: vectors of halves are half as wide as others.
template <class E>
constexpr int64_t kSide = kVectorBytes / int64_t(sizeof(E) < 4 ? 4 : sizeof(E));
template <class E>
using SquareRow = Vector<E, int(kSide<E>* int64_t(sizeof(E)))>;

/// Of each square of 2 * kDistance rows, the second half of the first rows for the first half of
/// the second rows.
template <int kDistance, class V, size_t... i>
[[gnu::always_inline]] inline void swap_halves(V& a, V& b, std::index_sequence<i...>) {
  constexpr int kOther = int(sizeof...(i)) - kDistance;
  const V first = __builtin_shufflevector(a, b, (int(i) & kDistance ? int(i) + kOther : int(i))...);
  b = __builtin_shufflevector(a, b,
                              (int(i) & kDistance ? int(i + sizeof...(i)) : int(i) + kDistance)...);
  a = first;
}

/// Turns rows into columns.
template <class E, int kDistance = int(kSide<E> / 2)>
[[gnu::always_inline]] inline void turn(SquareRow<E>* rows) {
#pragma GCC unroll 16
  for (int64_t k = 0; k < kSide<E>; ++k)
    if (!(k & kDistance))
      swap_halves<kDistance>(rows[k], rows[k + kDistance],
                             std::make_index_sequence<size_t(kSide<E>)>{});
  if constexpr (kDistance > 1) turn<E, kDistance / 2>(rows);
}

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
