// Squares of elements, rows for columns.
#pragma once

#include <algorithm>
#include <utility>

#include "cpu/simd/vector.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

/// Rows of a square, which all stay in registers: vectors of halves are half as wide as others.
template <class E>
constexpr int64_t kSide = kVectorBytes / int64_t(sizeof(E) < 4 ? 4 : sizeof(E));
template <class E>
using SquareRow = Vector<E, int(kSide<E>* int64_t(sizeof(E)))>;

/// Elements of a row that processors move most cheaply among themselves: those of 16 bytes.
template <class E>
constexpr int64_t kZipped = std::min(kSide<E>, 16 / int64_t(sizeof(E)));

/// The first or the last halves of each kWidth elements of a and b, in turn from a and from b.
template <int kWidth, bool kIsLast, class V, size_t... i>
[[gnu::always_inline]] inline V zipped(const V& a, const V& b, std::index_sequence<i...>) {
  constexpr int kLength = int(sizeof...(i)), kHalf = kIsLast ? kWidth / 2 : 0;
  return __builtin_shufflevector(
      a, b, (int(i) / kWidth * kWidth + kHalf + int(i) % kWidth / 2 + int(i) % 2 * kLength)...);
}

/// Turns the squares of kZipped elements in as many rows, one after the other.
template <class E, int kRounds = int(kZipped<E>)>
[[gnu::always_inline]] inline void turn_zipped(SquareRow<E>* rows) {
  if constexpr (kRounds > 1) {
    constexpr int kWidth = int(kZipped<E>), kHalf = kWidth / 2;
    constexpr auto kIndices = std::make_index_sequence<size_t(kSide<E>)>{};
    SquareRow<E> from[kWidth];
#pragma GCC unroll 16
    for (int k = 0; k < kWidth; ++k) from[k] = rows[k];
#pragma GCC unroll 16
    for (int k = 0; k < kHalf; ++k) {
      rows[2 * k] = zipped<kWidth, false>(from[k], from[k + kHalf], kIndices);
      rows[2 * k + 1] = zipped<kWidth, true>(from[k], from[k + kHalf], kIndices);
    }
    turn_zipped<E, kRounds / 2>(rows);
  }
}

/// Every other block of kWidth elements of a and then of b: those of even numbers, or of odd ones.
template <int kWidth, bool kIsOdd, class V, size_t... i>
[[gnu::always_inline]] inline V unzipped(const V& a, const V& b, std::index_sequence<i...>) {
  return __builtin_shufflevector(
      a, b, ((int(i) / kWidth * 2 + int(kIsOdd)) * kWidth + int(i) % kWidth)...);
}

/// Turns squares of blocks: rows kZipped apart, each of kSide / kZipped blocks of kZipped elements,
/// which stay as they are.
template <class E, int kRounds = int(kSide<E> / kZipped<E>)>
[[gnu::always_inline]] inline void turn_blocks(SquareRow<E>* rows) {
  if constexpr (kRounds > 1) {
    constexpr int kWidth = int(kZipped<E>), kBlocks = int(kSide<E>) / kWidth;
    constexpr auto kIndices = std::make_index_sequence<size_t(kSide<E>)>{};
    SquareRow<E> from[kBlocks];
#pragma GCC unroll 16
    for (int k = 0; k < kBlocks; ++k) from[k] = rows[k * kWidth];
#pragma GCC unroll 16
    for (int k = 0; k < kBlocks; k += 2) {
      rows[k / 2 * kWidth] = unzipped<kWidth, false>(from[k], from[k + 1], kIndices);
      rows[(k + kBlocks) / 2 * kWidth] = unzipped<kWidth, true>(from[k], from[k + 1], kIndices);
    }
    turn_blocks<E, kRounds / 2>(rows);
  }
}

/// Turns rows into columns.
template <class E>
[[gnu::always_inline]] inline void turn(SquareRow<E>* rows) {
#pragma GCC unroll 16
  for (int64_t k = 0; k < kZipped<E>; ++k) turn_blocks<E>(rows + k);
#pragma GCC unroll 16
  for (int64_t k = 0; k < kSide<E>; k += kZipped<E>) turn_zipped<E>(rows + k);
}

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
