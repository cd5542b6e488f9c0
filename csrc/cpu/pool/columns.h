// The columns of a joined line: windows along the innermost axis become one value each.
#pragma once

#include <algorithm>

#include "cpu/simd/column_pairs.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

/// Windows along lines: a column has `lanes` neighbouring values, a line `columns` windows. There
/// are `lines` of them, `pitch` values apart; their joined values follow each other.
struct ColumnShape {
  int64_t window, stride, dilation, lanes, columns, lines, pitch;

  int64_t values() const { return columns * lanes; }
  /// Values between fetches of memory, of `vector` values each.
  int64_t fetches(int64_t vector) const {
    const bool apart = lanes > 1 && lanes >= vector;
    const int64_t n = apart ? lanes : values();
    return lines * (apart ? columns : 1) * ((n + vector - 1) / vector);
  }
};

/// Memory that will be read soon, `rows` pieces `pitch` bytes apart: joining columns reads none
/// itself, and fetches `step` bytes of each with every vector of outputs, so that reading and
/// computing go on together.
struct Ahead {
  const char* at = nullptr;
  int64_t step = 0, rows = 0, pitch = 0;

  template <int kLevel = 2>
  void fetch() {
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t i = 0; i < step; i += 64) __builtin_prefetch(at + r * pitch + i, 0, kLevel);
    at += step;
  }
  /// Four vectors of each piece. Inline: GCC drops calls that only prefetch.
  [[gnu::always_inline]] void fetch_near() {
    if (rows > 0) fetch_four(at);
    for (int64_t r = 1; r < rows; ++r) fetch_four(at + r * pitch);
    at += step;
  }
  /// Into the first cache: loads that cross lines would wait for both of them.
  [[gnu::always_inline]] static void fetch_four(const char* p) {
    for (int64_t i = 0; i < 4 * kVectorBytes; i += 64) __builtin_prefetch(p + i, 0, 3);
  }
};

// Every function writes the joined values of whole windows to `out`, in whole vectors: `line` and
// `out` have kSlack bytes behind what is used. kTaps is the window's length, or 0 for the one
// given.

/// Stride 1: out[i] = join of line[i + k * shift].
template <int kTaps, class Join, class V>
void join_flat(const V* line, const ColumnShape& s, V* out, Ahead ahead) {
  const int64_t count = kTaps ? kTaps : s.window, shift = s.dilation * s.lanes, n = s.values();
  for (int64_t r = 0; r < s.lines; ++r, line += s.pitch, out += n)
    for (int64_t i = 0; i < n; i += kLanes<V>) {
      auto v = load_vector<Vector<V>>(line + i);
      for (int64_t k = 1; k < count; ++k)
        v = Join::join(v, load_vector<Vector<V>>(line + i + k * shift));
      store_vector(out + i, v);
      ahead.fetch();
    }
}

/// Lines that follow each other without padding between. For each value of `segment` ones, whole
/// lines, `numbers` tells the column, counted from `start` columns before the first.
template <class V>
struct PackedLines {
  using Number = IntegerLike<V>;
  const V* numbers;  // Number by their bits
  int64_t segment, start, in;
};

/// Stride 1 on packed lines: out[i] = join of line[i + (k - start) * shift], where what stands in
/// another line is `none`.
template <int kTaps, class Join, class V>
void join_packed(const V* line, const ColumnShape& s, const PackedLines<V>& p, V none, V* out,
                 Ahead ahead) {
  using Number = typename PackedLines<V>::Number;
  using Numbers = Vector<std::make_unsigned_t<Number>>;
  const int64_t count = kTaps ? kTaps : s.window, shift = s.dilation * s.lanes, n = s.values();
  const auto nothing = all_lanes(none);
  const auto in = Numbers{} + std::make_unsigned_t<Number>(p.in);
  line -= p.start * s.lanes;
  for (int64_t from = 0; from < n; from += p.segment, line += p.segment, out += p.segment)
    for (int64_t i = 0; i < std::min(p.segment, n - from); i += kLanes<V>) {
      auto at = load_vector<Numbers>(p.numbers + i);
      auto v = at < in ? load_vector<Vector<V>>(line + i) : nothing;
      for (int64_t k = 1; k < count; ++k) {
        at += std::make_unsigned_t<Number>(s.dilation);
        v = Join::join(v, at < in ? load_vector<Vector<V>>(line + i + k * shift) : nothing);
      }
      store_vector(out + i, v);
      ahead.fetch();
    }
}

/// Stride 2, one lane: out[i] = join of line[2 * i + k * dilation].
template <int kTaps, class Join, class V>
void join_second(const V* line, const ColumnShape& s, V* out, Ahead ahead) {
  const int64_t n = s.columns;
  for (int64_t r = 0; r < s.lines; ++r, line += s.pitch, out += n)
    for (int64_t i = 0; i < n; i += kLanes<V>) {
      const V* const at = line + 2 * i;
      auto v = every_second<0>(at);
      if constexpr (kTaps == 3)
        v = Join::join(Join::join(v, every_second<1>(at)), every_second<0>(at + 2));
      if constexpr (kTaps == 0)
        for (int64_t k = 1; k < s.window; ++k)
          v = Join::join(v, every_second<0>(at + k * s.dilation));
      store_vector(out + i, v);
      ahead.fetch();
    }
}

/// Stride 4, one lane: the even and the odd columns apart first, each then with stride 2. `room`
/// takes half a line twice.
template <class Join, class V>
void join_fourth(const V* line, const ColumnShape& s, V* room, V* out, Ahead ahead) {
  const int64_t n = s.columns, half = ((n - 1) * 4 + (s.window - 1) * s.dilation + 2) / 2;
  V* const streams[2] = {room, room + half + 2 * kSlack / int64_t(sizeof(V))};
  for (int64_t r = 0; r < s.lines; ++r, line += s.pitch, out += n) {
    for (int64_t i = 0; i < half; i += kLanes<V>) {
      store_vector(streams[0] + i, every_second<0>(line + 2 * i));
      store_vector(streams[1] + i, every_second<1>(line + 2 * i));
    }
    for (int64_t i = 0; i < n; i += kLanes<V>) {
      auto v = every_second<0>(streams[0] + 2 * i);
      for (int64_t k = 1; k < s.window; ++k) {
        const int64_t at = k * s.dilation;
        v = Join::join(v, every_second<0>(streams[at & 1] + at / 2 + 2 * i));
      }
      store_vector(out + i, v);
      ahead.fetch();
    }
  }
}

/// Stride 3, one lane: every third column apart first. `room` takes a third of a line three times.
template <class Join, class V>
void join_third(const V* line, const ColumnShape& s, V* room, V* out, Ahead ahead) {
  const int64_t n = s.columns, third = n + (s.window - 1) * s.dilation / 3;
  const int64_t apart = third + 2 * kSlack / int64_t(sizeof(V));
  V* const streams[3] = {room, room + apart, room + 2 * apart};
  for (int64_t r = 0; r < s.lines; ++r, line += s.pitch, out += n) {
    for (int64_t i = 0; i < third; i += kLanes<V>) {
      store_vector(streams[0] + i, every_third<0>(line + 3 * i));
      store_vector(streams[1] + i, every_third<1>(line + 3 * i));
      store_vector(streams[2] + i, every_third<2>(line + 3 * i));
    }
    for (int64_t i = 0; i < n; i += kLanes<V>) {
      auto v = load_vector<Vector<V>>(streams[0] + i);
      for (int64_t k = 1; k < s.window; ++k) {
        const int64_t at = k * s.dilation;
        v = Join::join(v, load_vector<Vector<V>>(streams[at % 3] + at / 3 + i));
      }
      store_vector(out + i, v);
      ahead.fetch();
    }
  }
}

/// The same of windows of two or three columns side by side, in registers.
template <class Join, class V>
void join_near_third(const V* line, const ColumnShape& s, V* out, Ahead ahead) {
  for (int64_t r = 0; r < s.lines; ++r, line += s.pitch, out += s.columns)
    for (int64_t i = 0; i < s.columns; i += kLanes<V>) {
      const V* const at = line + 3 * i;
      auto v = Join::join(every_third<0>(at), every_third<1>(at));
      if (s.window == 3) v = Join::join(v, every_third<2>(at));
      store_vector(out + i, v);
      ahead.fetch();
    }
}

/// Columns 4 * i + k from p on, in lane i of at[k].
template <class V>
struct Fourths {
  Vector<V> at[4];

  /// of(k) gives vector k of the columns.
  template <class Of>
  [[gnu::always_inline]] explicit Fourths(const Of& of) {
    constexpr auto kAll = std::make_index_sequence<size_t(kLanes<V>)>{};
    const Vector<V> a = of(0), b = of(1), c = of(2), d = of(3);
    const auto even = pick<0, 2>(a, b, kAll), odd = pick<1, 2>(a, b, kAll);
    const auto more_even = pick<0, 2>(c, d, kAll), more_odd = pick<1, 2>(c, d, kAll);
    at[0] = pick<0, 2>(even, more_even, kAll);
    at[1] = pick<0, 2>(odd, more_odd, kAll);
    at[2] = pick<1, 2>(even, more_even, kAll);
    at[3] = pick<1, 2>(odd, more_odd, kAll);
  }
};

/// Stride 4, one lane, windows of 4 or 5 columns side by side, in registers. of(i, k) gives vector
/// k of the columns of the outputs from i on; calls put(i, v) for every vector of n outputs.
template <class Join, class V, class Of, class Put>
[[gnu::always_inline]] inline void join_near_fourths(int64_t n, bool five, const Of& of,
                                                     const Put& put) {
  constexpr int64_t kStep = kLanes<V>;
  constexpr auto kAll = std::make_index_sequence<size_t(kStep)>{};
  const auto fourths = [&](int64_t i) __attribute__((always_inline)) {
    return Fourths<V>([&](int64_t k) __attribute__((always_inline)) { return of(i, k); });
  };
  auto now = fourths(0);
  for (int64_t i = 0; i < n; i += kStep) {
    const auto next = fourths(i + kStep);
    auto v = Join::join(Join::join(Join::join(now.at[0], now.at[1]), now.at[2]), now.at[3]);
    if (five) v = Join::join(v, pick<1, 1>(now.at[0], next.at[0], kAll));
    put(i, v);
    now = next;
  }
}

/// The same of lines.
template <class Join, class V>
void join_near_fourth(const V* line, const ColumnShape& s, V* out, Ahead ahead) {
  for (int64_t r = 0; r < s.lines; ++r, line += s.pitch, out += s.columns)
    join_near_fourths<Join, V>(
        s.columns, s.window == 5,
        [&](int64_t i, int64_t k) { return load_vector<Vector<V>>(line + 4 * i + k * kLanes<V>); },
        [&](int64_t i, const Vector<V>& v) {
          store_vector(out + i, v);
          ahead.fetch();
        });
}

template <class Join, class V>
void join_strided(const V* line, const ColumnShape& s, V* out, Ahead ahead) {
  for (int64_t r = 0; r < s.lines; ++r, line += s.pitch)
    for (int64_t i = 0; i < s.columns; ++i) {
      V v = line[i * s.stride];
      for (int64_t k = 1; k < s.window; ++k) v = Join::join(v, line[i * s.stride + k * s.dilation]);
      *out++ = v;
      if (i % kLanes<V> == 0) ahead.fetch();
    }
}

/// Columns of several lanes: values of one column side by side. The last vector of a column may
/// run into the next, which is written later.
template <int kTaps, int kBytes, class Join, class V>
void join_lanes_of_columns(const V* line, const ColumnShape& s, V* out, Ahead ahead) {
  using Lanes = Vector<V, kBytes>;
  constexpr int64_t kStep = kBytes / int64_t(sizeof(V));
  const int64_t count = kTaps ? kTaps : s.window, shift = s.dilation * s.lanes;
  int64_t due = 0;  // values until the next fetch
  for (int64_t r = 0; r < s.lines; ++r) {
    const V* at = line + r * s.pitch;
    for (int64_t j = 0; j < s.columns; ++j, out += s.lanes, at += s.stride * s.lanes) {
      for (int64_t i = 0; i < s.lanes; i += kStep) {
        auto v = load_vector<Lanes>(at + i);
        for (int64_t k = 1; k < count; ++k)
          v = Join::join(v, load_vector<Lanes>(at + i + k * shift));
        store_vector(out + i, v);
        if (s.lanes >= kLanes<V>) ahead.fetch();
      }
      if (s.lanes < kLanes<V> && (due -= s.lanes) < 0) {
        ahead.fetch();
        due += kLanes<V>;
      }
    }
  }
}

/// Stride 2, windows of two columns of a few bytes.
template <class Join, class Pairs, class V>
void join_short_pairs(const V* line, const ColumnShape& s, V* out, Ahead ahead) {
  const Pairs pairs(s.lanes * int64_t(sizeof(V)));
  const int64_t step = pairs.columns * s.lanes;
  int64_t due = 0;  // values until the next fetch
  for (int64_t r = 0; r < s.lines; ++r, line += s.pitch, out += s.values())
    for (int64_t i = 0; i < s.values(); i += step) {
      const char* const from = reinterpret_cast<const char*>(line + 2 * i);
      store_vector(out + i, pairs.template join_at<Join, V>(from));
      if ((due -= step) >= 0) continue;
      ahead.fetch();
      due += kLanes<V>;
    }
}

template <class Join, class V>
void join_columns_of_lanes(const V* line, const ColumnShape& s, V* out, Ahead ahead) {
  if constexpr (std::is_integral_v<V> && ColumnPairs::kMost > 0)
    if (s.lanes * int64_t(sizeof(V)) <= ColumnPairs::kMost && s.window == 2 && s.stride == 2 &&
        s.dilation == 1)
      return join_short_pairs<Join, ColumnPairs>(line, s, out, ahead);
  if (s.lanes * int64_t(sizeof(V)) <= 16 && kVectorBytes > 16 && !std::is_floating_point_v<V>)
    return join_lanes_of_columns<0, 16, Join>(line, s, out, ahead);
  if (s.window == 2) return join_lanes_of_columns<2, kVectorBytes, Join>(line, s, out, ahead);
  if (s.window == 3) return join_lanes_of_columns<3, kVectorBytes, Join>(line, s, out, ahead);
  join_lanes_of_columns<0, kVectorBytes, Join>(line, s, out, ahead);
}

/// All windows of lines that hold all their columns. `room` is as large as a line.
template <class Join, class V>
void join_columns(const V* line, const ColumnShape& s, V* room, V* out, Ahead ahead) {
  if (s.stride == 1 || s.columns == 1) {
    if (s.window == 3) return join_flat<3, Join>(line, s, out, ahead);
    return join_flat<0, Join>(line, s, out, ahead);
  }
  if (s.lanes > 1) return join_columns_of_lanes<Join>(line, s, out, ahead);
  if (s.stride == 2) {
    if (s.dilation == 1 && s.window == 3) return join_second<3, Join>(line, s, out, ahead);
    return join_second<0, Join>(line, s, out, ahead);
  }
  if (s.stride == 3 && s.dilation == 1 && s.window > 1 && s.window <= 3)
    return join_near_third<Join>(line, s, out, ahead);
  if (s.stride == 3) return join_third<Join>(line, s, room, out, ahead);
  if (s.stride == 4 && s.dilation == 1 && (s.window == 4 || s.window == 5))
    return join_near_fourth<Join>(line, s, out, ahead);
  if (s.stride == 4) return join_fourth<Join>(line, s, room, out, ahead);
  join_strided<Join>(line, s, out, ahead);
}

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
