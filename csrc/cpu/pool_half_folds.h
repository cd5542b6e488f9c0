// Winners of every second column for 16-bit floats, as integers of 16 bits: twice as many lanes as
// floats have, for rows without NaNs and negative zeros, which are all but rare ones.
#pragma once

#include "cpu/pool_columns.h"
#include "cpu/pool_winner_lanes.h"
#include "ops/pool.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

/// At most three rows of taps, and what a tap adds to the position of the first row's middle one:
/// rows `inner` each, columns `step`; that of column 0 is `place`.
template <class T>
struct HalfRows {
  const T* const* at;
  int64_t count, inner, step, place;
};

/// What is added fits 16 bits.
inline bool fits_halves(const PoolPlan& p) {
  const int64_t inner = p.axis[1].dilation * p.flat.space[1];
  return p.axis[0].window == 1 && p.axis[1].window <= 3 &&
         2 * inner + p.flat.space[2] <= std::numeric_limits<int16_t>::max();
}

/// Values compare as their bits do, those of negative ones turned over but for the sign.
inline Vector<int16_t> turned_halves(const Vector<int16_t>& bits) {
  return bits ^ (bits >> 15 & int16_t(0x7fff));
}

/// What values as integers must not be: any of these may be a NaN or a negative zero.
struct HalfBounds {
  Vector<int16_t> bits{}, lowest{}, highest{};

  Vector<int16_t> see(const Vector<int16_t>& v) {
    bits = v < bits ? v : bits;
    const auto key = turned_halves(v);
    lowest = key < lowest ? key : lowest;
    return key;
  }
  template <class T>
  bool are_plain() const {
    constexpr int16_t kInfinity = std::is_same_v<T, Float16> ? 0x7c00 : 0x7f80;
    const Vector<int16_t> bad = (bits == std::numeric_limits<int16_t>::min()) |
                                (lowest < int16_t(~kInfinity)) | (highest > kInfinity);
    bool any = false;
    for (int64_t i = 0; i < kLanes<int16_t>; ++i) any |= bad[i] != 0;
    return !any;
  }
};

/// As fold_winners(); whole vectors are written.
template <int kRows, bool kWide, class T>
[[gnu::noinline]] void fold_halves(const HalfRows<T> rows, int64_t base, int64_t n,
                                   HalfBounds& bounds, T* values, int32_t* places, Ahead& ahead) {
  using Halves = Vector<int16_t>;
  constexpr int64_t kStep = kLanes<int16_t>;
  constexpr auto kAll = std::make_index_sequence<size_t(kStep)>{};
  constexpr auto kHalf = std::make_index_sequence<size_t(kStep / 2)>{};
  const int64_t count = kRows ? kRows : rows.count;
  HalfBounds seen = bounds;
  Halves before[3];
  for (int64_t r = 0; kWide && r < count; ++r) {
    before[r] = all_lanes(std::numeric_limits<int16_t>::min());
    if (base == 1) before[r] = seen.see(all_lanes(int16_t(rows.at[r]->bits)));
  }
  Vector<int32_t> ramp;
  for (int32_t j = 0; j < kStep / 2; ++j)
    ramp[j] = int32_t(rows.place + (base + 2 * j) * rows.step);
  const int32_t turn = int32_t(kStep * rows.step);
  Ahead next = ahead;
  for (int64_t i = 0; i < n; i += kStep) {
    Halves best{}, place{};
#pragma GCC unroll 3
    for (int64_t r = 0; r < count; ++r) {
      const T* const from = rows.at[r] + base + 2 * i;
      const auto a = seen.see(load_vector<Halves>(from));
      const auto b = seen.see(load_vector<Halves>(from + kStep));
      const auto even = pick<0, 2>(a, b, kAll), odd = pick<1, 2>(a, b, kAll);
      const auto at = int16_t(r * rows.inner), step = int16_t(rows.step);
      Halves largest = even, where = all_lanes(at);
      if (kWide) {
        largest = pick<kStep - 1, 1>(before[r], odd, kAll);
        before[r] = odd;
        where = all_lanes(int16_t(at - step));
        offer<int16_t>(largest, where, even, all_lanes(at));
      }
      offer<int16_t>(largest, where, odd, all_lanes(int16_t(at + step)));
      if (r == 0) {
        best = largest;
        place = where;
      } else {
        offer<int16_t>(best, place, largest, where);
      }
    }
    seen.highest = best > seen.highest ? best : seen.highest;
    store_vector(values + i, turned_halves(best));
    const auto low = half_of<0, int16_t, kVectorBytes>(place, kHalf);
    const auto high = half_of<1, int16_t, kVectorBytes>(place, kHalf);
    store_vector(places + i, __builtin_convertvector(low, Vector<int32_t>) + ramp);
    ramp += turn;
    store_vector(places + i + kStep / 2, __builtin_convertvector(high, Vector<int32_t>) + ramp);
    ramp += turn;
    next.fetch_near();
  }
  ahead.at = next.at;
  bounds = seen;
}

template <class T>
void fold_halves(const HalfRows<T>& rows, int64_t window, int64_t base, int64_t n,
                 HalfBounds& bounds, T* values, int32_t* places, Ahead& ahead) {
  if (window == 3 && rows.count == 3)
    return fold_halves<3, true>(rows, base, n, bounds, values, places, ahead);
  if (window == 3) return fold_halves<0, true>(rows, base, n, bounds, values, places, ahead);
  fold_halves<0, false>(rows, base, n, bounds, values, places, ahead);
}

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
