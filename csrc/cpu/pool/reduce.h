// Reductions of pooling, and their loops over rows of taps and over runs of taps.
#pragma once

#include <algorithm>
#include <cstdint>

#include "cpu/isa/processor.h"
#include "cpu/memory/tuning.h"
#include "cpu/pool/pieces.h"
#include "cpu/simd/interleave.h"
#include "cpu/simd/lanes.h"
#include "math/reducer.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

// A reduction tells the type Element of x and y, the type V of the lanes they are joined in, how
// vectors get into lanes (load) and out of them (store), how two values or vectors join, what no
// value is, and in what type longer reductions are kept. Sums may tell what one
// element adds (tap), too.

struct Larger {
  /// The larger; NaN where one of them is.
  template <class A>
  static A join(A best, A v) {
    const A larger = v > best ? v : best;
    return v != v ? v : larger;
  }
  /// A processor's maximum is its second operand where one is NaN: both orders have all bits.
  static Vector<float> join(Vector<float> a, Vector<float> b) { return both_ways<int32_t>(a, b); }
  static Vector<double> join(Vector<double> a, Vector<double> b) {
    return both_ways<int64_t>(a, b);
  }

 private:
  template <class Bits, class W>
  static W both_ways(const W& a, const W& b) {
    return same_bits<W>(same_bits<Vector<Bits>>(processor_max(a, b)) |
                        same_bits<Vector<Bits>>(processor_max(b, a)));
  }
};

struct Adding {
  template <class A>
  static A join(A a, A b) {
    return a + b;
  }
};

/// Maxima of float and double.
template <class T>
struct MaxOf : Larger {
  using Element = T;
  using V = T;
  using Total = T;
  using Join = Larger;
  static constexpr bool kRepeats = true;  // a value joined twice changes nothing
  static V none() { return max_of_none<T>(); }
  template <class P>
  Vector<V> load(P p) const {
    return read_once(load_floats(p));  // both orders of a maximum have it as an operand
  }
  void store(T* p, Vector<V> v) const { store_vector(p, v); }
};

/// Maxima of what is compared as integers S of its own size: integers, the unsigned ones turned by
/// half of their range, and sixteen-bit floats, which need no conversion so.
template <class S>
struct MaxOfIntegers : Larger {
  using Element = S;
  using V = S;
  using Total = S;
  using Join = Larger;
  static constexpr bool kRepeats = true;
  using U = std::make_unsigned_t<S>;
  /// Floats: the bits that negative ones have upside down, and how far the order is turned round,
  /// so that negative NaNs, the least integers, become the largest.
  U magnitude = 0, turn = 0;

  static V none() { return std::numeric_limits<S>::min(); }

  template <class P>
  Vector<V> load(P p) const {
    return same_bits<Vector<V>>(same_bits<Vector<U>>(folded(load_once(p))) - turn);
  }
  void store(S* p, Vector<V> v) const {
    store_vector(p, folded(same_bits<Vector<S>>(same_bits<Vector<U>>(v) + turn)));
  }

 private:
  Vector<S> folded(const Vector<S>& bits) const {
    if constexpr (sizeof(S) == 2) return turned_if_negative(bits, S(magnitude));
    return bits;
  }
};

template <class T>
struct SumOf : Adding {
  using Element = T;
  using V = Acc<T>;
  using Total = double;
  using Join = Adding;
  static constexpr bool kRepeats = false;
  static V none() { return V{0}; }
  template <class P>
  Vector<V> load(P p) const {
    return load_floats(p);
  }
  static constexpr bool has_taps() { return true; }
  static V tap(V v) { return v; }
  void store(T* p, Vector<V> v) const { store_floats(p, v); }
};

/// Sums |x|^p.
template <class T>
struct PowerSumOf : SumOf<T> {
  using V = Acc<T>;
  uint32_t p = 2;

  template <class P>
  Vector<V> load(P from) const {
    const auto v = load_floats(from);
    return p == 2 ? v * v : power(v, p);
  }
  bool has_taps() const { return p <= 2; }
  V tap(V v) const { return p == 2 ? v * v : std::fabs(v); }

 private:
  /// |v|^p bit by bit of p; of both zeros +0. Not inline: it is rare, and loads are many.
  [[gnu::noinline]] static Vector<V> power(Vector<V> v, uint32_t p) {
    using Bits = std::conditional_t<sizeof(V) == 8, int64_t, int32_t>;
    const auto magnitude = same_bits<Vector<Bits>>(v) & std::numeric_limits<Bits>::max();
    auto base = same_bits<Vector<V>>(magnitude);
    auto result = (p & 1) ? base : all_lanes(V{1});
    for (uint32_t bits = p >> 1; bits != 0; bits >>= 1) {
      base *= base;
      if (bits & 1) result *= base;
    }
    return result;
  }
};

/// A reduction that reads floats from memory.
template <class Op>
struct FarOf : Op {
  Vector<typename Op::V> load(const typename Op::Element* p) const {
    if constexpr (std::is_same_v<typename Op::Element, float>)
      return Op::load(FarFloats{p});
    else
      return Op::load(p);
  }
};

constexpr int64_t kUnderWayBytes = 4096;  // of a run: what a core has under way, or more

/// A reduction that fetches what stands `bytes` behind what it loads.
template <class Op>
struct AheadOf : Op {
  int64_t bytes;

  AheadOf(const Op& op, int64_t ahead) : Op(op), bytes(processor.is_told_of_runs ? ahead : 0) {}
  Vector<typename Op::V> load(const typename Op::Element* p) const {
    // As a number: p may be that of a few elements alone.
    const uintptr_t ahead = reinterpret_cast<uintptr_t>(p) + uintptr_t(bytes);
    __builtin_prefetch(reinterpret_cast<const void*>(ahead), 0, 3);
    return Op::load(p);
  }
};

/// The vector at p, of which n elements count and those from `end` on must not be touched.
template <class Op>
inline Vector<typename Op::V> load_part(const Op& op, const typename Op::Element* p, int64_t n,
                                        const typename Op::Element* end) {
  return end - p >= kLanes<typename Op::V> ? op.load(p) : load_between(op, p, 0, n);
}

/// Writes the first n elements of a vector.
template <class Op>
inline void store_part(const Op& op, typename Op::Element* p, const Vector<typename Op::V>& v,
                       int64_t n) {
  using E = typename Op::Element;
  E room[kLanes<typename Op::V>];
  op.store(room, v);
  std::memcpy(p, room, size_t(n) * sizeof(E));
}

/// First elements of the taps [f, f + n) of a box, 1 <= n <= kChain.
template <class T>
struct RowList {
  const T* at[kChain];  // n of them are set

  RowList(const T* base, const Box& box, int64_t f, int64_t n) {
    TapCursor cursor(box, f);
    int64_t r = 0;
    do {
      at[r] = base + cursor.offset();
      cursor.advance(1);
    } while (++r < n);
  }
};

/// Rows that are read side by side. More are joined so many at a time, in every path alike: sums
/// round as their order says.
constexpr int64_t kRowsAtOnce = 9;

/// The row that ends last: where rows are broadcast or overlap, not always the last of a group.
template <class E>
inline const E* highest_row(const E* const* rows, int64_t count) {
  return *std::max_element(rows, rows + count);
}

/// Joins one vector of each row, at element `at`. kRows is their count, or 0 for the one given.
template <int kRows, class Op>
inline Vector<typename Op::V> join_vectors(const Op& op, const typename Op::Element* const* rows,
                                           int64_t count, int64_t at) {
  auto v = op.load(rows[0] + at);
  if constexpr (kRows > 0) {
    if constexpr (kRows > 1) v = Op::join(v, op.load(rows[1] + at));
    if constexpr (kRows > 2) v = Op::join(v, op.load(rows[2] + at));
    static_assert(kRows <= 3);
    return v;
  }
  for (int64_t r = 1; r < std::min(kRowsAtOnce, count); ++r) v = Op::join(v, op.load(rows[r] + at));
  for (int64_t first = kRowsAtOnce; first < count; first += kRowsAtOnce) {
    auto group = op.load(rows[first] + at);
    for (int64_t r = first + 1; r < std::min(first + kRowsAtOnce, count); ++r)
      group = Op::join(group, op.load(rows[r] + at));
    v = Op::join(v, group);
  }
  return v;
}

/// Joins elements [at, at + n) of the rows: into line what whole vectors hold. Returns how many.
/// kMore: line holds a part of the result.
template <int kRows, bool kMore, class Op>
inline int64_t join_whole_vectors(const Op& op, const typename Op::Element* const* rows,
                                  int64_t count, int64_t at, int64_t n, typename Op::V* line) {
  using V = typename Op::V;
  constexpr int64_t kStep = kLanes<V>;
  const auto put = [&](int64_t i, Vector<V> v) {
    if constexpr (kMore) v = Op::join(load_vector<Vector<V>>(line + i), v);
    store_vector(line + i, v);
  };
  int64_t i = 0;
  if constexpr (kRows < 2) {
    for (; i + 4 * kStep <= n; i += 4 * kStep) {
      const auto* row = rows[0] + at + i;
      auto a = op.load(row), b = op.load(row + kStep), c = op.load(row + 2 * kStep);
      auto d = op.load(row + 3 * kStep);
      for (int64_t r = 1; r < (kRows ? kRows : count); ++r) {
        row = rows[r] + at + i;
        a = Op::join(a, op.load(row));
        b = Op::join(b, op.load(row + kStep));
        c = Op::join(c, op.load(row + 2 * kStep));
        d = Op::join(d, op.load(row + 3 * kStep));
      }
      put(i, a);
      put(i + kStep, b);
      put(i + 2 * kStep, c);
      put(i + 3 * kStep, d);
    }
  }
  for (; i + kStep <= n; i += kStep) put(i, join_vectors<kRows>(op, rows, count, at + i));
  return i;
}

/// The vector at element `at` of the rows, of which n elements count and those from `end` on must
/// not be touched.
template <class Op>
[[gnu::noinline]] Vector<typename Op::V> join_parts(const Op& op,
                                                    const typename Op::Element* const* rows,
                                                    int64_t count, int64_t at, int64_t n,
                                                    const typename Op::Element* end) {
  auto v = load_part(op, rows[0] + at, n, end);
  for (int64_t r = 1; r < count; ++r) v = Op::join(v, load_part(op, rows[r] + at, n, end));
  return v;
}

template <int kRows, bool kMore, class Op>
inline void join_group(const Op& op, const typename Op::Element* const* rows, int64_t count,
                       int64_t at, int64_t n, const typename Op::Element* end,
                       typename Op::V* line) {
  using V = typename Op::V;
  const int64_t i = join_whole_vectors<kRows, kMore>(op, rows, count, at, n, line);
  if (i == n) return;
  const bool inside = end - highest_row(rows, kRows ? kRows : count) - at - i >= kLanes<V>;
  auto v = inside ? join_vectors<kRows>(op, rows, count, at + i)
                  : join_parts(op, rows, count, at + i, n - i, end);
  if constexpr (kMore) v = Op::join(load_vector<Vector<V>>(line + i), v);
  store_vector(line + i, v);
}

/// Joins elements [at, at + n) of count >= 1 rows into line, which has kSlack bytes of room behind;
/// `end` is the end of x.
template <class Op>
void join_rows(const Op& op, const typename Op::Element* const* rows, int64_t count, int64_t at,
               int64_t n, const typename Op::Element* end, typename Op::V* line) {
  if (count == 2) return join_group<2, false>(op, rows, count, at, n, end, line);
  if (count == 3) return join_group<3, false>(op, rows, count, at, n, end, line);
  join_group<0, false>(op, rows, std::min(kRowsAtOnce, count), at, n, end, line);
  for (int64_t r = kRowsAtOnce; r < count; r += kRowsAtOnce)
    join_group<0, true>(op, rows + r, std::min(kRowsAtOnce, count - r), at, n, end, line);
}

/// Fetches what stands kUnderWayBytes behind n elements of a run.
/// Inline, since a call between loads would put what is joined into memory.
template <class E>
[[gnu::always_inline]] inline void fetch_ahead(const E* p, int64_t n) {
  if (!processor.is_told_of_runs) return;
  const char* ahead = reinterpret_cast<const char*>(p) + kUnderWayBytes;
  for (int64_t j = 0; j < n * int64_t(sizeof(E)); j += 64) __builtin_prefetch(ahead + j, 0, 3);
}

/// Joins n >= 1 neighbours, 4 vectors of running values, then a tree, so that no chain is long.
template <class Op>
typename Op::V join_span(const Op& op, const typename Op::Element* p, int64_t n) {
  using V = typename Op::V;
  constexpr int64_t kStep = kLanes<V>;
  if (n < kStep) {
    const auto v = load_part(op, p, n, p + n);
    V joined = v[0];
    for (int64_t i = 1; i < n; ++i) joined = Op::join(joined, V(v[i]));
    return joined;
  }
  // The first vectors go through the loop too: read before it, they make long rows a fifth slower.
  Vector<V> v = all_lanes(Op::none());
  int64_t i = 0;
  if (n >= 4 * kStep) {
    Vector<V> b = v, c = v, d = v;
    const std::conditional_t<Op::kRepeats, Op, FarOf<Op>> far{op};  // maxima: no faster, and longer
    for (; i + 4 * kStep <= n; i += 4 * kStep) {
      fetch_ahead(p + i, 4 * kStep);
      v = Op::join(v, far.load(p + i));
      b = Op::join(b, far.load(p + i + kStep));
      c = Op::join(c, far.load(p + i + 2 * kStep));
      d = Op::join(d, far.load(p + i + 3 * kStep));
    }
    v = Op::join(Op::join(v, b), Op::join(c, d));
  }
  for (; i + kStep <= n; i += kStep) v = Op::join(v, op.load(p + i));
  if (i < n) {
    Vector<V> last = op.load(p + n - kStep);
    if constexpr (!Op::kRepeats) last = keep_last<V>(last, n - i);
    v = Op::join(v, last);
  }
  return join_lanes<typename Op::Join, V>(v);
}

/// Lane i becomes all lanes of at[i] joined.
template <class Join, class V>
inline Vector<V> join_turned_lanes(Vector<V>* at) {
  constexpr size_t kCount = size_t(kLanes<V>);
  constexpr auto kAll = kLanesOf<Vector<V>>;
  for (size_t n = kCount / 2; n > 0; n /= 2)
    for (size_t k = 0; k < n; ++k)
      at[k] = Join::join(interleaved<0>(at[k], at[k + n], kAll),
                         interleaved<1>(at[k], at[k + n], kAll));
  return at[0];
}

/// Joins kLanes<V> spans of n >= kLanes<V> neighbours each, `pitch` apart, of which `count` exist.
template <class Op>
inline Vector<typename Op::V> join_spans(const Op& op, const typename Op::Element* p, int64_t n,
                                         int64_t pitch, int64_t count) {
  using V = typename Op::V;
  constexpr int64_t kStep = kLanes<V>;
  Vector<V> joined[kStep];
  const int64_t whole = n / kStep * kStep;
  for (int64_t k = 0; k < kStep; ++k) {
    fetch_ahead(p, n);
    auto v = op.load(p);
    for (int64_t i = kStep; i < whole; i += kStep) v = Op::join(v, op.load(p + i));
    if (whole < n) {
      const auto last = op.load(p + n - kStep);
      v = Op::join(v, Op::kRepeats ? last : keep_last<V>(last, n - whole));
    }
    joined[k] = v;
    if (k + 1 < count) p += pitch;
  }
  return join_turned_lanes<typename Op::Join, V>(joined);
}

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
