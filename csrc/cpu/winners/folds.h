// Winners along rows: of joined lines, and of every second column of windows of two or three, whose
// rows and columns are joined in registers, in visiting order.
#pragma once

#include "cpu/pool/columns.h"
#include "cpu/winners/lanes.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

/// As offer(), for taps in any order: of equals the one at the lowest position stays.
template <class V>
inline void offer_unordered(Vector<V>& best, Vector<Position<V>>& place, const Vector<V>& v,
                            const Vector<Position<V>>& at) {
  const auto earlier = at < place;
  if constexpr (std::is_floating_point_v<V>) {
    const auto number = best == best;
    const auto take = (~(v <= best) & number) | (earlier & ((v == best) | ~(number | (v == v))));
    best = take ? v : best;
    place = take ? at : place;
  } else {
    const auto take = (v > best) | ((v == best) & earlier);
    best = take ? v : best;
    place = take ? at : place;
  }
}

/// Joins columns as join_columns does. Values i of tap k stand at tap(k, i).
template <class V, class Tap>
inline void offer_columns(WinnerLine<V> out, int64_t n, int64_t taps, Ahead& ahead,
                          const Tap& tap) {
  for (int64_t i = 0; i < n; i += kLanes<V>) {
    Vector<V> best{}, v{};
    Vector<Position<V>> place{}, at{};
    tap(0, i, best, place);
    for (int64_t k = 1; k < taps; ++k) {
      tap(k, i, v, at);
      offer_unordered<V>(best, place, v, at);
    }
    store_vector(out.value + i, best);
    store_vector(out.place + i, place);
    ahead.fetch();
  }
}

template <class V>
void join_winners(WinnerLine<V> line, const ColumnShape& s, WinnerLine<V> out, Ahead& ahead) {
  const int64_t shift = s.dilation * s.lanes;
  const auto neighbours = [&](int64_t k, int64_t i, Vector<V>& v, Vector<Position<V>>& at) {
    v = load_vector<Vector<V>>(line.value + i + k * shift);
    at = load_vector<Vector<Position<V>>>(line.place + i + k * shift);
  };
  const auto second = [&](int64_t k, int64_t i, Vector<V>& v, Vector<Position<V>>& at) {
    v = every_second<0>(line.value + 2 * i + k * shift);
    at = every_second<0>(line.place + 2 * i + k * shift);
  };
  const auto apart = [&](int64_t k, int64_t i, Vector<V>& v, Vector<Position<V>>& at) {
    for (int64_t j = 0; j < kLanes<V>; ++j) {
      const int64_t from = std::min(i + j, s.columns - 1) * s.stride + k * shift;
      v[j] = line.value[from];
      at[j] = line.place[from];
    }
  };
  if (s.stride == 1) return offer_columns<V>(out, s.values(), s.window, ahead, neighbours);
  if (s.lanes == 1 && s.stride == 2)
    return offer_columns<V>(out, s.columns, s.window, ahead, second);
  if (s.lanes == 1) return offer_columns<V>(out, s.columns, s.window, ahead, apart);
  for (int64_t j = 0; j < s.columns; ++j) {
    offer_columns<V>(out, s.lanes, s.window, ahead, neighbours);
    line.value += s.stride * s.lanes;
    line.place += s.stride * s.lanes;
    out.value += s.lanes;
    out.place += s.lanes;
  }
}

/// Rows of taps: where their columns 0 are, and the positions of these.
template <class T, class P>
struct FoldedRows {
  static constexpr int64_t kMost = 16;

  const T* const* at;
  const P* place;
  int64_t count;
  P step;  // from one column to the next
};

/// Columns `base` + 2 * i and the one behind make output i, and where kWide the one before; column
/// -1 is none. Whole vectors are read and written.
template <bool kWide, class Op, class T, class V, class P>
[[gnu::noinline]] void fold_winners(const Op& op, const FoldedRows<T, P>& rows, int64_t base,
                                    int64_t n, WinnerLine<V> out, Ahead& ahead) {
  constexpr int64_t kStep = kLanes<V>;
  constexpr auto kAll = std::make_index_sequence<size_t(kStep)>{};
  Vector<V> before[FoldedRows<T, P>::kMost];
  for (int64_t r = 0; kWide && r < rows.count; ++r)
    before[r] = all_lanes(base == 1 ? V(op.load(rows.at[r])[0]) : Op::none());
  Vector<P> ramp, edge = {};  // edge: lanes whose column before does not exist
  for (int64_t j = 0; j < kStep; ++j) ramp[j] = P(base + 2 * j) * rows.step;
  if (base == 0) edge[0] = -1;
  Ahead next = ahead;
  for (int64_t i = 0; i < n; i += kStep) {
    Vector<V> best{};
    Vector<P> place{};
    for (int64_t r = 0; r < rows.count; ++r) {  // rows by themselves first: none waits for another
      const T* const from = rows.at[r] + base + 2 * i;
      const auto a = op.load(from), b = op.load(from + kStep);
      const auto even = pick<0, 2>(a, b, kAll), odd = pick<1, 2>(a, b, kAll);
      const P at = rows.place[r];
      Vector<V> largest = even;
      Vector<P> where = all_lanes(at);
      if (kWide) {
        const auto left = pick<kStep - 1, 1>(before[r], odd, kAll);
        before[r] = odd;
        largest = edge != 0 ? even : left;
        where = edge != 0 ? where : all_lanes(P(at - rows.step));
        offer<V>(largest, where, even, all_lanes(at));
      }
      offer<V>(largest, where, odd, all_lanes(P(at + rows.step)));
      if (r == 0) {
        best = largest;
        place = where;
      } else {
        offer<V>(best, place, largest, where);
      }
    }
    store_vector(out.value + i, best);
    store_vector(out.place + i, place + ramp);
    ramp += P(2 * kStep) * rows.step;
    edge = Vector<P>{};
    next.fetch_near();
  }
  ahead.at = next.at;
}

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
