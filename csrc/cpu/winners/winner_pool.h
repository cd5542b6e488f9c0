// What the ways to find winners window by window have in common.
#pragma once

#include "cpu/pool/pieces.h"
#include "cpu/pool/reduce.h"
#include "cpu/winners/keys.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

/// The best tap so far: its key and its number among the real taps of the window.
struct Winner {
  int64_t key, tap;
};

/// The one of two that counts, of which `a` is visited first. Keys have no NaN: by wins() the
/// larger one counts, and of equals the first.
inline Winner first_winner(Winner a, Winner b) { return wins(a.key, b.key) ? b : a; }

/// Offers one tap to n windows; those that have none yet have tap number -1.
template <class K>
void offer(const K* __restrict line, int64_t stride, K number, K* __restrict best,
           K* __restrict tap, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    const K key = line[i * stride];
    const bool take = (tap[i] < 0) | wins(best[i], key);
    best[i] = take ? key : best[i];
    tap[i] = take ? number : tap[i];
  }
}

template <class T>
struct WinnerPool {
  using K = Key<T>;
  const PoolPlan& plan;
  const T* x;
  T* y;  // null where only indices are wanted
  void* indices;

  void put_index(int64_t at, int64_t index) const {
    if (plan.index_dtype == Dtype::uint32)
      static_cast<uint32_t*>(indices)[at] = uint32_t(index);
    else
      static_cast<int64_t*>(indices)[at] = index;
  }
  /// Writes the tap that won the window at y_at, index_at; x_at and flat_at belong to its plane.
  void put_tap(const Box& box, int64_t tap, const Task& at) const {
    if (box.taps == 0) {  // D-MAX-4
      if (y) y[at.y] = store_as<T>(max_of_none<T>());
      return put_index(at.indices, -1);
    }
    const int64_t c = tap % box.count[2], b = tap / box.count[2] % box.count[1];
    const int64_t a = tap / box.count[2] / box.count[1];
    if (y) y[at.y] = x[at.x + box.x_at(a, b, c)];
    put_index(at.indices, at.flat + box.flat + a * box.flat_step[0] + b * box.flat_step[1] +
                              c * box.flat_step[2]);
  }
};

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
