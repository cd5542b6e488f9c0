// Rows of 3 x 3 windows that advance by 2, in registers: their winners, and what these are handed.
#pragma once

#include "cpu/pool_grad.h"
#include "cpu/pool_lanes.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

/// Keys of T: integers in the order of its values. 16-bit floats keep 16 bits, for more lanes.
template <class T>
using RowKey = std::conditional_t<sizeof(T) == 2, int16_t, int32_t>;
template <class T>
using RowKeys = Vector<RowKey<T>>;
template <class T>
constexpr int64_t kKeyLanes = kLanes<RowKey<T>>;
template <class T>
constexpr RowKey<T> kNoKey = std::numeric_limits<RowKey<T>>::min();  // below every key

using RowSums = Vector<float>;
using RowTaps = Vector<int32_t>;
constexpr int64_t kRowLanes = kLanes<float>;

template <class V>
constexpr auto kLanesOf = std::make_index_sequence<sizeof(V) / sizeof(V{}[0])>{};

/// Zeros have one key, and NaNs have one, the largest.
template <class T>
RowKeys<T> keys_of(RowKeys<T> bits) {
  using K = RowKey<T>;
  using Unsigned = Vector<std::make_unsigned_t<K>>;
  const auto from_zero = same_bits<RowKeys<T>>(same_bits<Unsigned>(RowKeys<T>{} + kNoKey<T>) -
                                               same_bits<Unsigned>(bits));
  const RowKeys<T> keys = bits < 0 ? from_zero : bits;
  const RowKeys<T> nan = RowKeys<T>{} + std::numeric_limits<K>::max();
  if constexpr (sizeof(T) == 4) {
    const auto value = same_bits<RowSums>(bits);
    return value != value ? nan : keys;
  } else {
    constexpr K kInfinity = std::is_same_v<T, Float16> ? 0x7c00 : 0x7f80;
    return (bits & std::numeric_limits<K>::max()) > kInfinity ? nan : keys;
  }
}

/// Neighbouring elements of a row, those of even position and those of odd.
template <class T>
struct KeyPairs {
  RowKeys<T> even = RowKeys<T>{} + kNoKey<T>, odd = even;

  KeyPairs() = default;
  KeyPairs(const RowKeys<T>& a, const RowKeys<T>& b) : even(a), odd(b) {}
  explicit KeyPairs(const T* x) {
    const auto* bits = reinterpret_cast<const RowKey<T>*>(x);
    even = keys_of<T>(every_second<0>(bits));
    odd = keys_of<T>(every_second<1>(bits));
  }
};

/// A row of x: `full` pairs in whole vectors, a multiple of kKeyLanes, then keys of the others,
/// which end in kNoKey.
template <class T>
struct KeyRow {
  static constexpr int64_t kAhead = 8192;  // bytes; what stands so much further on is fetched

  const T* x;
  int64_t full;
  const RowKey<T>*even, *odd;

  KeyPairs<T> at(int64_t i) const {
    if (i < full) {
      const char* const next = reinterpret_cast<const char*>(x + 2 * i) + kAhead;
      for (int64_t j = 0; j < 2 * kVectorBytes; j += 64) __builtin_prefetch(next + j, 0, 2);
      return KeyPairs<T>(x + 2 * i);
    }
    KeyPairs<T> pairs;
    pairs.even = load_vector<RowKeys<T>>(even + i - full);
    pairs.odd = load_vector<RowKeys<T>>(odd + i - full);
    return pairs;
  }
};

/// The largest keys of windows so far, and the numbers of the first taps that have them.
template <class V>
struct Winners {
  V best, tap;

  void offer(const V& key, const V& number) {
    tap = key > best ? number : tap;
    best = key > best ? key : best;
  }
};

/// The lanes one before those of `now`.
template <class V, size_t... i>
V one_before(const V& before, const V& now, std::index_sequence<i...>) {
  return __builtin_shufflevector(before, now, (int(i) + int(sizeof...(i)) - 1)...);
}

/// The three columns of windows that end in pairs `now`; kOdd: in their odd elements.
template <int kOdd, class T>
Winners<RowKeys<T>> search_columns(const KeyPairs<T>& before, const KeyPairs<T>& now) {
  using V = RowKeys<T>;
  const V even = one_before(before.even, now.even, kLanesOf<V>);
  const V odd = one_before(before.odd, now.odd, kLanesOf<V>);
  Winners<V> w{kOdd ? odd : even, {}};
  w.offer(kOdd ? now.even : odd, V{} + 1);
  w.offer(kOdd ? now.odd : now.even, V{} + 2);
  return w;
}

inline void store_taps(int32_t* line, const Vector<int32_t>& taps) { store_vector(line, taps); }

inline void store_taps(int32_t* line, const Vector<int16_t>& taps) {
  constexpr auto kHalf = std::make_index_sequence<size_t(kRowLanes)>{};
  const auto low = half_of<0, int16_t, kVectorBytes>(taps, kHalf);
  const auto high = half_of<1, int16_t, kVectorBytes>(taps, kHalf);
  store_vector(line, __builtin_convertvector(low, RowTaps));
  store_vector(line + kRowLanes, __builtin_convertvector(high, RowTaps));
}

/// Two rows of windows: the lower one is searched, the upper one handed its gradients. Place i of a
/// line belongs to the window whose last column is in pair i; place -1 can be read.
template <class T>
struct WindowRows {
  KeyRow<T> second, third;  // rows of x below the lower windows' first one
  RowKey<T>*best, *tap;     // what the columns of that first row have, then those of the third
  int32_t* lower;           // winners of the lower windows
  const int32_t *upper, *above;
  const float *grad, *grad_above;
  T* dst[2];  // sums of the upper windows' first and second row
};

/// Where the search of a row is.
template <class T>
struct PairsBefore {
  KeyPairs<T> second, third;
};

template <int kOdd, class T>
void search_windows(const WindowRows<T>& w, int64_t i, PairsBefore<T>& before) {
  using V = RowKeys<T>;
  const KeyPairs<T> second = w.second.at(i), third = w.third.at(i);
  const auto a = search_columns<kOdd>(before.second, second);
  const auto b = search_columns<kOdd>(before.third, third);
  before = {second, third};
  Winners<V> all{load_vector<V>(w.best + i), load_vector<V>(w.tap + i)};
  all.offer(a.best, a.tap + 3);
  all.offer(b.best, b.tap + 6);
  store_vector(w.best + i, b.best);
  store_vector(w.tap + i, b.tap);
  store_taps(w.lower + i, all.tap);
}

inline void add_won(RowSums& sum, const RowTaps& tap, int32_t number, const float* grad) {
  const auto value = load_vector<RowSums>(grad);
  sum = tap == number ? sum + value : sum;
}

template <class T, size_t... i>
void store_pairs(T* dst, const RowSums& a, const RowSums& b, std::index_sequence<i...>) {
  constexpr int kHalf = int(kRowLanes / 2), kOther = int(kRowLanes);
  store_floats(dst, __builtin_shufflevector(a, b, (int(i) / 2 + int(i) % 2 * kOther)...));
  store_floats(dst + kRowLanes,
               __builtin_shufflevector(a, b, (kHalf + int(i) / 2 + int(i) % 2 * kOther)...));
}

/// Adds up in the order of taps. An end of a window's row is its first column and the third one of
/// the window to its left.
template <class T>
void collect_windows(const WindowRows<T>& w, int64_t i) {
  const auto right = load_vector<RowTaps>(w.upper + i);
  const auto left = load_vector<RowTaps>(w.upper + i - 1);
  const auto above = load_vector<RowTaps>(w.above + i);
  const auto above_left = load_vector<RowTaps>(w.above + i - 1);
  const float *grad = w.grad + i, *grad_above = w.grad_above + i;
  RowSums ends = {}, middle = {};
  add_won(ends, right, 0, grad);
  add_won(ends, left, 2, grad - 1);
  add_won(ends, above, 6, grad_above);
  add_won(ends, above_left, 8, grad_above - 1);
  add_won(middle, right, 1, grad);
  add_won(middle, above, 7, grad_above);
  store_pairs(w.dst[0] + 2 * i, ends, middle, kLanesOf<RowSums>);
  ends = middle = RowSums{};
  add_won(ends, right, 3, grad);
  add_won(ends, left, 5, grad - 1);
  add_won(middle, right, 4, grad);
  store_pairs(w.dst[1] + 2 * i, ends, middle, kLanesOf<RowSums>);
}

/// Both at once, as neither waits for the other; n is a multiple of kKeyLanes.
template <int kOdd, class T>
[[gnu::noinline]] void search_and_collect(const WindowRows<T>& w, int64_t n) {
  PairsBefore<T> before;
  for (int64_t i = 0; i < n; i += kKeyLanes<T>) {
    search_windows<kOdd>(w, i, before);
    for (int64_t j = i; j < i + kKeyLanes<T>; j += kRowLanes) collect_windows(w, j);
  }
}

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
