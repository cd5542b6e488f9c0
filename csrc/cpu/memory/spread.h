// What belongs to short pieces, for each of their elements.
#pragma once

#include <algorithm>

#include "cpu/simd/vector.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

/// Puts every value of a packed row `fold` times, in place: n elements, the first `skip` left out.
/// From the last one on: values that are still to be read stand before all that is written, and a
/// vector may begin before its piece.
template <class A>
void spread(A* row, int64_t fold, int64_t skip, int64_t n) {
  constexpr int64_t kWidth = kLanes<A>;
  int64_t i = (skip + n - 1) / fold;
  for (; n - kWidth >= i && i > 0; --i) {
    const int64_t begin = i * fold - skip;
    const Vector<A> value = all_lanes(row[i]);
    int64_t to = n - kWidth;
    for (; to > begin; to -= kWidth) store_vector(row + to, value);
    store_vector(row + std::min(begin, n - kWidth), value);
    n = begin;
  }
  for (; n > 0; --i) {
    const A value = row[i];
    for (const int64_t begin = std::max<int64_t>(0, i * fold - skip); n > begin;) row[--n] = value;
  }
}

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
