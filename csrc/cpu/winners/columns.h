// Winners along joined lines, whose columns come in any order.
#pragma once

#include "cpu/pool/columns.h"
#include "cpu/winners/lanes.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

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
      offer<V, false>(best, place, v, at);
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
  const auto third = [&](int64_t k, int64_t i, Vector<V>& v, Vector<Position<V>>& at) {
    v = every_third<0>(line.value + 3 * i + k * shift);
    at = every_third<0>(line.place + 3 * i + k * shift);
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
  if (s.lanes == 1 && s.stride == 3)
    return offer_columns<V>(out, s.columns, s.window, ahead, third);
  if (s.lanes == 1) return offer_columns<V>(out, s.columns, s.window, ahead, apart);
  for (int64_t j = 0; j < s.columns; ++j) {
    offer_columns<V>(out, s.lanes, s.window, ahead, neighbours);
    line.value += s.stride * s.lanes;
    line.place += s.stride * s.lanes;
    out.value += s.lanes;
    out.place += s.lanes;
  }
}

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
