// Winners of every second column for floats without NaNs and negative zeros, which are all but rare
// ones: rows are joined first, then columns, and equals tell who has won.
#pragma once

#include "cpu/pool/reduce.h"
#include "cpu/winners/pairs.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

/// At most three rows of taps of each of `lines` rows of n outputs; they stand `next` elements
/// after those of the line before. What taps add to the position of the first row's column 0,
/// `place`: rows `inner` each, columns `step`, lines `turn`.
template <class E>
struct PlainRows {
  const E* at[3];
  int64_t count, inner, step, place, n, lines, next, turn;
};

// Lanes tell how elements are read, the type V that values compare in, what they are made from and
// become, and whether all they have seen was plain.

struct PlainFloats {
  using Element = float;
  using V = float;
  using P = int32_t;
  static V none() { return -std::numeric_limits<V>::infinity(); }

  template <bool kSees>
  std::pair<Vector<V>, Vector<V>> load(const float* p) {
    const MaxOf<V> op;
    const auto a = op.load(p), b = op.load(p + kLanes<V>);
    if constexpr (!kSees) return {a, b};
    numbers_.see(a, b);
    return {a, b};
  }
  static Vector<V> larger(const Vector<V>& first, const Vector<V>& v) {
    return processor_max(v, first);  // the first of equals
  }
  /// Largest of a column: of negative zeros the sign would be that of any.
  void see_column(const Vector<V>& v) {
    const auto bits = same_bits<Vector<P>>(v);
    lowest_ = bits < lowest_ ? bits : lowest_;
  }
  void see_largest(const Vector<V>&) {}
  bool are_plain() const {
    const bool zeros = any_bits(lowest_ == std::numeric_limits<P>::min());
    return !zeros && numbers_.hold();
  }
  static void store(float* p, const Vector<V>& v) { store_vector(p, v); }
  /// Positions from `ramp` on, which a vector of outputs moves by `turn` for every kLanes<int32_t>.
  static void place(uint32_t* p, const Vector<P>& at, Vector<uint32_t>& ramp, uint32_t turn) {
    store_vector(p, same_bits<Vector<uint32_t>>(at) + ramp);
    ramp += turn;
  }

 private:
  NumbersAlone numbers_;
  Vector<P> lowest_{};
};

/// 16-bit floats as integers of 16 bits, of which there are twice as many lanes as of floats: they
/// compare as their bits do, those of negative ones turned over but for the sign.
struct PlainHalves {
  using Element = int16_t;
  using V = int16_t;
  using P = int16_t;
  V infinity;
  static V none() { return std::numeric_limits<V>::min(); }

  template <bool kSees>
  std::pair<Vector<V>, Vector<V>> load(const V* p) {
    const auto a = load_once<V>(p), b = load_once<V>(p + kLanes<V>);
    if constexpr (!kSees) return {turned(a), turned(b)};
    return {see(a), see(b)};
  }
  static Vector<V> larger(const Vector<V>& a, const Vector<V>& b) { return a > b ? a : b; }
  void see_column(const Vector<V>&) {}
  void see_largest(const Vector<V>& v) { highest_ = v > highest_ ? v : highest_; }
  bool are_plain() const {
    return !any_bits((bits_ == std::numeric_limits<V>::min()) | (lowest_ < V(~infinity)) |
                     (highest_ > infinity));
  }
  static void store(V* p, const Vector<V>& v) { store_vector(p, turned(v)); }
  static void place(uint32_t* p, const Vector<P>& at, Vector<uint32_t>& ramp, uint32_t turn) {
    constexpr auto kHalf = std::make_index_sequence<size_t(kLanes<int32_t>)>{};
    PlainFloats::place(p, widened(half_of<0, P, kVectorBytes>(at, kHalf)), ramp, turn);
    p += kLanes<int32_t>;
    PlainFloats::place(p, widened(half_of<1, P, kVectorBytes>(at, kHalf)), ramp, turn);
  }

 private:
  static Vector<V> turned(const Vector<V>& bits) { return bits ^ (bits >> 15 & V(0x7fff)); }
  Vector<V> see(const Vector<V>& v) {
    bits_ = v < bits_ ? v : bits_;
    const auto key = turned(v);
    lowest_ = key < lowest_ ? key : lowest_;
    return key;
  }

  Vector<V> bits_{}, lowest_{}, highest_{};
};

/// As fold_winners(); whole vectors are written. Three rows at compile time are those of lines of
/// which each begins with the last row of the one before.
template <int kRows, bool kWide, class Lanes, class E>
[[gnu::noinline]] void fold_plain(const PlainRows<E> t, int64_t base, Lanes& lanes, E* values,
                                  uint32_t* places, Ahead& ahead) {
  using V = typename Lanes::V;
  using P = typename Lanes::P;
  constexpr int64_t kStep = kLanes<V>;
  constexpr auto kAll = std::make_index_sequence<size_t(kStep)>{};
  const int64_t count = kRows ? kRows : t.count;
  const E* row[3];
  std::copy_n(t.at, count, row);
  Lanes seen = lanes;
  Ahead next = ahead;
  const auto step = all_lanes(P(t.step)), farthest = all_lanes(kNowhere<V>);
  const auto offer = [](Vector<V>& best, Vector<P>& at, const Vector<V>& v, const Vector<P>& row) {
    at = wins_of<V, false>(best, v) ? row : at;
    best = Lanes::larger(best, v);
  };
  struct Columns {
    Vector<V> a, b;
    Vector<P> at_a{}, at_b{};
  };
  const auto columns_at = [&](int64_t i) __attribute__((always_inline)) {
    const auto [a, b] = seen.template load<true>(row[0] + i);
    Columns c{a, b};
#pragma GCC unroll 2
    for (int64_t r = 1; r < count; ++r) {
      const auto at = all_lanes(P(r * t.inner));
      const auto [u, v] = kRows == 3 && r == 2 ? seen.template load<false>(row[r] + i)
                                               : seen.template load<true>(row[r] + i);
      offer(c.a, c.at_a, u, at);
      offer(c.b, c.at_b, v, at);
    }
    seen.see_column(c.a);
    seen.see_column(c.b);
    return c;
  };
  const auto first = [](Vector<P>& at, const Vector<P>& v, const auto& wins) {
    const auto least = v < at ? v : at;
    at = wins ? least : at;
  };
  Vector<uint32_t> start;
  for (int64_t j = 0; j < kLanes<uint32_t>; ++j)
    start[j] = uint32_t(t.place + (base + 2 * j) * t.step);
  const auto turn = uint32_t(2 * kLanes<uint32_t> * t.step);
  for (int64_t line = 0; line < t.lines; ++line, start += uint32_t(t.turn)) {
    auto before = all_lanes(Lanes::none());
    auto at_before = farthest;
    if (kWide && base == 1) {
      const Columns c = columns_at(0);
      before = all_lanes(V(c.a[0]));
      at_before = all_lanes(P(c.at_a[0] + t.step));
    }
    auto ramp = start;
    for (int64_t i = 0; i < t.n; i += kStep) {
      const Columns c = columns_at(base + 2 * i);
      const auto even = pick<0, 2>(c.a, c.b, kAll), odd = pick<1, 2>(c.a, c.b, kAll);
      const Vector<P> at_even = pick<0, 2>(c.at_a, c.at_b, kAll);
      const Vector<P> at_odd = pick<1, 2>(c.at_a, c.at_b, kAll) + step;
      auto best = Lanes::larger(even, odd);
      auto at = farthest;
      if constexpr (kWide) {
        const auto left = pick<kStep - 1, 1>(before, odd, kAll);
        const Vector<P> at_left = pick<kStep - 1, 1>(at_before, at_odd, kAll) - 2 * step;
        best = Lanes::larger(left, best);
        at = left == best ? at_left : at;
        before = odd;
        at_before = at_odd;
      }
      first(at, at_even, even == best);
      first(at, at_odd, odd == best);
      seen.see_largest(best);
      Lanes::store(values + i, best);
      Lanes::place(places + i, at, ramp, turn);
      next.fetch_near();
    }
    values += t.n;
    places += t.n;
    for (int64_t r = 0; r < count; ++r) row[r] += t.next;
  }
  if constexpr (kRows == 3) {  // the last row of the last line
    seen.template load<true>(row[0]);
    for (int64_t i = 0; i < t.n; i += kStep) seen.template load<true>(row[0] + base + 2 * i);
  }
  ahead.at = next.at;
  lanes = seen;
}

template <class Lanes, class E>
void fold_plain_rows(const PlainRows<E>& t, int64_t window, int64_t base, Lanes& lanes, E* values,
                     uint32_t* places, Ahead& ahead) {
  const bool share = t.count == 3 && t.turn == 2 * t.inner;
  if (window == 3 && share) return fold_plain<3, true>(t, base, lanes, values, places, ahead);
  if (window == 3) return fold_plain<0, true>(t, base, lanes, values, places, ahead);
  if constexpr (std::is_same_v<E, float>)
    if (t.count == 2) return fold_plain<2, false>(t, base, lanes, values, places, ahead);
  fold_plain<0, false>(t, base, lanes, values, places, ahead);
}

/// Strips of which all is plain; any other is found as PairWinners does.
template <class Op>
class PlainPairWinners : PairWinners<Op> {
  using Base = PairWinners<Op>;
  using Base::plan_, Base::shape_, Base::x_, Base::end_, Base::fetches_, Base::rows_, Base::place_;
  using typename Base::T;

 public:
  using Base::Base;

  void operator()(const Task& task) {
    const Strip s(plan_, shape_, task);
    uint32_t* places;
    T* const to = Base::begin(s, places);
    if (fold_plain(s, to, places)) return Base::end(s, places != nullptr);
    Base::fold_lines(s);
    Base::end_joined(s, to);
  }

 private:
  /// Lines of pairs of columns straight to where they go, if there is nothing among them that this
  /// cannot do; after such strips some are not tried. Lines that see whole windows go all at once.
  /// Indices go to `places`, or positions to place_.out.
  [[gnu::noinline]] bool fold_plain(const Strip& s, T* to, uint32_t* places) {
    if (--untried_ > 0) return false;
    const auto& [task, c, lines] = s;
    using Lanes = std::conditional_t<kIsHalf<T>, PlainHalves, PlainFloats>;
    using E = typename Lanes::Element;
    constexpr int64_t kStep = kLanes<typename Lanes::V>;
    const PoolAxis &h = plan_.axis[1], &w = plan_.axis[2];
    const PoolStrides& flat = plan_.flat;
    rows_.taps[0] = axis_taps(plan_.axis[0], task.space(0));
    const int64_t vectors = (c.n + kStep - 1) / kStep, base = w.window == 3 ? 1 - w.start : 0;
    const int64_t next = h.stride * plan_.x.space[1], turn = h.stride * flat.space[1];
    Ahead ahead;
    Lanes lanes;
    if constexpr (kIsHalf<T>) lanes.infinity = std::is_same_v<T, Float16> ? 0x7c00 : 0x7f80;
    const Interior whole = interior_of(h, lines.first, lines.first + lines.rows);
    const bool counts_all = places != nullptr;
    if (!counts_all) places = reinterpret_cast<uint32_t*>(place_.out);
    for (int64_t i = 0, n; i < lines.lines; i += n, to += n * c.n, places += n * c.n) {
      const int64_t o = lines.row(i), plane = lines.plane(i);
      rows_.find(plan_, x_ + task.x + plane * plan_.x.batch[1], o);
      n = o >= whole.from && o < whole.to ? whole.to - o : 1;
      if (i == 0 && fetches_) ahead = near_ahead(plan_, rows_, vectors);
      const int64_t reach = base + 2 * vectors * kStep + (n - 1) * next;
      if (rows_.count == 0 || end_ - rows_.at[rows_.count - 1] < reach) return false;
      int64_t first = rows_.taps[0].begin * flat.space[0] + rows_.taps[1].begin * flat.space[1];
      if (counts_all) first += task.flat + plane * flat.batch[1];
      PlainRows<E> rows{{},   rows_.count, h.dilation * flat.space[1], flat.space[2], first, c.n, n,
                        next, turn};
      for (int64_t r = 0; r < rows_.count; ++r)
        rows.at[r] = reinterpret_cast<const E*>(rows_.at[r]);
      fold_plain_rows(rows, w.window, base, lanes, reinterpret_cast<E*>(to), places, ahead);
    }
    const bool plain = lanes.are_plain();
    untried_ = plain ? 0 : 16;
    return plain;
  }

  int64_t untried_ = 0;  // strips
};

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
