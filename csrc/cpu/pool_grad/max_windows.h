// Rows of 3 x 3 windows that advance by 2, in registers: their winners, and what these are handed.
#pragma once

#include "cpu/memory/tuning.h"
#include "cpu/pool_grad/covers.h"
#include "cpu/pool_grad/neighbours.h"
#include "cpu/simd/native.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

/// Keys of T in the order of its values, K: integers, 16 bits of 16-bit floats, for more lanes; or
/// the floats themselves, while there is no NaN among them.
template <class T>
using RowKey = IntegerLike<T>;

using RowSums = Vector<float>;
using RowTaps = Vector<int32_t>;
constexpr int64_t kRowLanes = kLanes<float>;

/// What is joined in front of the first real tap, and behind the last one: no key loses to the
/// former or to the latter. Floats give way to a NaN in front of them, see Winners.
template <class K>
constexpr K kNoneBefore =
    std::is_same_v<K, float> ? std::numeric_limits<K>::quiet_NaN() : std::numeric_limits<K>::min();
template <class K>
constexpr K kNoneBehind =
    std::is_same_v<K, float> ? -std::numeric_limits<K>::infinity() : std::numeric_limits<K>::min();

/// Zeros have one key, and NaNs have one, the largest.
template <class T>
Vector<RowKey<T>> keys_of(Vector<RowKey<T>> bits) {
  using K = RowKey<T>;
  using Unsigned = Vector<std::make_unsigned_t<K>>;
  using Keys = Vector<K>;
  const auto from_zero = same_bits<Keys>(
      same_bits<Unsigned>(Keys{} + std::numeric_limits<K>::min()) - same_bits<Unsigned>(bits));
  const Keys keys = bits < 0 ? from_zero : bits;
  const Keys nan = Keys{} + std::numeric_limits<K>::max();
  if constexpr (sizeof(T) >= 4) {
    const auto value = same_bits<Vector<T>>(bits);
    return value != value ? nan : keys;
  } else {
    constexpr K kInfinity = std::is_same_v<T, Float16> ? 0x7c00 : 0x7f80;
    return (bits & std::numeric_limits<K>::max()) > kInfinity ? nan : keys;
  }
}

/// Whether there has been a NaN.
struct NanSeen {
  LaneSet lanes = {};
  void see(const RowSums& a, const RowSums& b) { lanes |= nan_lanes(a, b); }
  bool any() const { return is_any(lanes); }
};

/// Neighbouring elements of a row, the first of each pair and the second.
template <class K>
struct KeyPairs {
  Vector<K> first, second;
};

template <class T, class K>
KeyPairs<K> pairs_at(const T* x, NanSeen& nan) {
  constexpr auto kAll = kLanesOf<Vector<K>>;
  const auto* at = reinterpret_cast<const K*>(x);
  const auto a = opaque(load_vector<Vector<K>>(at));
  const auto b = opaque(load_vector<Vector<K>>(at + kLanes<K>));
  const auto first = pick<0, 2>(a, b, kAll), second = pick<1, 2>(a, b, kAll);
  if constexpr (std::is_same_v<K, float>) {
    nan.see(a, b);
    return {first, second};
  } else {
    return {keys_of<T>(first), keys_of<T>(second)};
  }
}

using tuning::pool_grad::kKeysAheadBytes;

/// A row of x, paired from the second column of its first window on: `full` pairs in whole vectors,
/// a multiple of kLanes<K>, then keys of the others, which end in nothing.
template <class T, class K>
struct KeyRow {
  const T* x;
  int64_t full;
  const K *first, *second;
  K before;     // what the first window begins with
  NanSeen nan;  // among the others, and before

  [[gnu::always_inline]] KeyPairs<K> at(int64_t i, NanSeen& nan) const {
    int64_t end = full;
    asm("" : "+r"(end));  // one loop, not two
    if (i < end) {
      const char* const next = reinterpret_cast<const char*>(x + 2 * i) + kKeysAheadBytes;
      for (int64_t j = 0; j < 2 * kVectorBytes; j += 64) __builtin_prefetch(next + j, 0, 3);
      return pairs_at<T, K>(x + 2 * i, nan);
    }
    return {load_vector<Vector<K>>(first + i - full), load_vector<Vector<K>>(second + i - full)};
  }
};

/// The largest keys of windows so far, and the numbers of the first taps that have them. A NaN that
/// is offered to gives way, a number of its size does not.
template <class K>
struct Winners {
  using Taps = Vector<IntegerLike<K>>;
  Vector<K> best;
  Taps tap;

  void offer(const Vector<K>& key, const Taps& number) {
    tap = key <= best ? tap : number;
    if constexpr (std::is_same_v<K, float>)
      best = processor_max(best, key);
    else
      best = key > best ? key : best;
  }
};

/// Numbers of taps in all lanes, for as long as rows of windows follow each other.
template <class A>
struct TapNumbers {
  Vector<A> of[9];
  TapNumbers() {
    for (int k = 0; k < 9; ++k) of[k] = opaque(all_lanes(A(k)));
  }
};
template <class K>
struct RowNumbers {
  TapNumbers<int32_t> collected;
  const TapNumbers<int32_t>& searched() const { return collected; }
};
template <>
struct RowNumbers<int16_t> {
  TapNumbers<int32_t> collected;
  TapNumbers<int16_t> narrow;
  const TapNumbers<int16_t>& searched() const { return narrow; }
};

/// The three columns of windows that end in pairs `now`; their taps are numbered from kFirst on.
template <int kFirst, class K>
Winners<K> search_columns(const Vector<K>& before, const KeyPairs<K>& now,
                          const TapNumbers<IntegerLike<K>>& number) {
  Winners<K> w{one_before(before, now.second), number.of[kFirst]};
  w.offer(now.first, number.of[kFirst + 1]);
  w.offer(now.second, number.of[kFirst + 2]);
  return w;
}

/// A row of windows is searched, and the two rows of elements that it begins with are handed their
/// gradients. Place i of a line belongs to the window whose last column is in pair i.
template <class T, class K>
struct WindowRows {
  KeyRow<T, K> second, third;  // rows of x below the windows' first one
  K* best;                     // what the columns of that first row have, then those of the third
  IntegerLike<K>* tap;
  int32_t* winner;  // of the row of windows above, then of this one
  const float *grad, *grad_above;
  T* dst[2];
};

inline void add_won(RowSums& sum, const RowTaps& tap, const RowTaps& number, const RowSums& grad) {
  sum = tap == number ? sum + grad : sum;
}

/// A vector of windows: the numbers of their winners, and their gradients.
struct WonGrads {
  RowTaps tap;
  RowSums grad;
};

/// What elements of two columns and two rows are handed: those in `ends` are a window's first
/// column and the third one of the window to its left.
struct SharedGrads {
  RowSums ends = {}, middle = {}, ends_below = {}, middle_below = {};
};

/// Adds up in the order of taps.
[[gnu::always_inline]] inline SharedGrads share_grads(const WonGrads& right, const WonGrads& left,
                                                      const WonGrads& above,
                                                      const WonGrads& above_left,
                                                      const TapNumbers<int32_t>& number) {
  SharedGrads s;
  add_won(s.ends, right.tap, number.of[0], right.grad);
  add_won(s.ends, left.tap, number.of[2], left.grad);
  add_won(s.ends, above.tap, number.of[6], above.grad);
  add_won(s.ends, above_left.tap, number.of[8], above_left.grad);
  add_won(s.middle, right.tap, number.of[1], right.grad);
  add_won(s.middle, above.tap, number.of[7], above.grad);
  add_won(s.ends_below, right.tap, number.of[3], right.grad);
  add_won(s.ends_below, left.tap, number.of[5], left.grad);
  add_won(s.middle_below, right.tap, number.of[4], right.grad);
  return s;
}

/// Vectors of windows, to the left of those that come next.
struct WindowsBefore {
  RowTaps tap = {}, above = {};
};

template <class T, class K>
[[gnu::always_inline]] inline void collect_windows(const WindowRows<T, K>& w, int64_t i,
                                                   const RowTaps& right, WindowsBefore& before,
                                                   const TapNumbers<int32_t>& number) {
  const auto above = load_vector<RowTaps>(w.winner + i);
  store_vector(w.winner + i, right);
  const auto grad = [&](const float* at) { return load_vector<RowSums>(at + i); };
  const auto left = one_before(before.tap, right), above_left = one_before(before.above, above);
  const SharedGrads s =
      share_grads({right, grad(w.grad)}, {left, grad(w.grad - 1)}, {above, grad(w.grad_above)},
                  {above_left, grad(w.grad_above - 1)}, number);
  store_pairs(w.dst[0] + 2 * i, s.ends, s.middle);
  store_pairs(w.dst[1] + 2 * i, s.ends_below, s.middle_below);
  before.tap = right;
  before.above = above;
}

/// Half a vector of 16-bit numbers of taps, kHalf 0 or 1.
template <int kHalf>
RowTaps wide_taps(const Vector<int16_t>& tap) {
  constexpr auto kAll = std::make_index_sequence<size_t(kRowLanes)>{};
  return as_words(half_of<kHalf, int16_t, kVectorBytes>(tap, kAll));
}

template <class T>
[[gnu::always_inline]] inline void collect_winners(const WindowRows<T, int16_t>& w, int64_t i,
                                                   const Vector<int16_t>& tap,
                                                   WindowsBefore& before,
                                                   const TapNumbers<int32_t>& number) {
  collect_windows(w, i, wide_taps<0>(tap), before, number);
  collect_windows(w, i + kRowLanes, wide_taps<1>(tap), before, number);
}

template <class T, class K>
[[gnu::always_inline]] inline void collect_winners(const WindowRows<T, K>& w, int64_t i,
                                                   const RowTaps& tap, WindowsBefore& before,
                                                   const TapNumbers<int32_t>& number) {
  collect_windows(w, i, tap, before, number);
}

/// n is a multiple of kLanes<K>. Gradients are handed out a vector behind the search, so that
/// neither waits for the other. Of no use, and false, where floats are keys and there is a NaN.
template <class T, class K>
[[gnu::always_inline]] inline bool search_and_collect(const WindowRows<T, K>& rows, int64_t n,
                                                      const RowNumbers<K>& numbers) {
  using Taps = typename Winners<K>::Taps;
  const WindowRows<T, K> w = rows;
  const auto& number = numbers.searched();
  auto second_before = all_lanes(w.second.before), third_before = all_lanes(w.third.before);
  WindowsBefore before;
  NanSeen nan = w.second.nan;
  nan.lanes |= w.third.nan.lanes;
  Taps found{};
  for (int64_t i = 0; i < n; i += kLanes<K>) {
    if (i > 0) collect_winners(w, i - kLanes<K>, found, before, numbers.collected);
    const KeyPairs<K> second = w.second.at(i, nan), third = w.third.at(i, nan);
    const auto a = search_columns<3>(second_before, second, number);
    const auto b = search_columns<6>(third_before, third, number);
    second_before = second.second;
    third_before = third.second;
    Winners<K> all{load_vector<Vector<K>>(w.best + i), load_vector<Taps>(w.tap + i)};
    all.offer(a.best, a.tap);
    all.offer(b.best, b.tap);
    store_vector(w.best + i, b.best);
    store_vector(w.tap + i, b.tap - number.of[6]);
    found = all.tap;
  }
  collect_winners(w, n - kLanes<K>, found, before, numbers.collected);
  return !nan.any();
}

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
