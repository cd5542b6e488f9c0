// Windows of three columns that advance by one, on rows that follow each other without gaps: the
// rows are joined, then each column with its neighbours, in registers.
#pragma once

#include "cpu/pool/reduce.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

/// Vectors of joined rows, lines of `in`, each joined with the columns before and behind it.
template <class Op>
struct Neighbours {
  using V = typename Op::V;
  using Number = std::make_unsigned_t<IntegerLike<V>>;
  Vector<V> before, now;
  Vector<Number> in;

  Neighbours(const Vector<V>& first, int64_t n)
      : before(all_lanes(Op::none())), now(first), in(Vector<Number>{} + Number(n)) {}
  /// What `now` becomes, for each value of which `numbers` tell the column before, a Number by its
  /// bits; moves on to the vector that follows.
  [[gnu::always_inline]] Vector<V> join(const Vector<V>& then, const V* numbers) {
    constexpr int64_t kStep = kLanes<V>;
    constexpr auto kAll = std::make_index_sequence<size_t(kStep)>{};
    const auto nothing = all_lanes(Op::none());
    const auto at = load_vector<Vector<Number>>(numbers);
    const auto left = pick<kStep - 1, 1>(before, now, kAll), right = pick<1, 1>(now, then, kAll);
    const auto v = Op::join(at < in ? left : nothing, now);
    before = now;
    now = then;
    return Op::join(v, at + 2 < in ? right : nothing);
  }
};

/// `count` rows of taps of n outputs, which stand in lines of `in`; n is a whole number of lines.
/// For each value of `segment` ones, whole lines too, `numbers` tells the column before.
template <class Op>
struct LineTaps {
  using T = typename Op::Element;
  const T* const* rows;
  int64_t count, n, in, segment;
  const typename Op::V* numbers;
  const T* end;  // of x
};

/// Calls put(i, j, v) for every vector of outputs; it begins with output i, column j of a segment.
template <int kRows, class Op, class Put>
[[gnu::always_inline]] inline void join_thirds(const Op op, const LineTaps<Op> t, const Put put) {
  using V = typename Op::V;
  constexpr int64_t kStep = kLanes<V>;
  const typename Op::Element* rows[kRows ? kRows : 1];  // in registers
  if constexpr (kRows > 0) std::copy_n(t.rows, kRows, rows);
  const int64_t whole = t.end - highest_row(t.rows, t.count) - kStep;
  const auto column = [&](int64_t i, int64_t end) __attribute__((always_inline)) {
    return i <= whole ? join_vectors<kRows>(op, kRows ? rows : t.rows, t.count, i)
                      : join_parts(op, t.rows, t.count, i, end - i, t.end);
  };
  for (int64_t from = 0; from < t.n; from += t.segment) {
    const int64_t end = std::min(from + t.segment, t.n);
    Neighbours<Op> columns(column(from, end), t.in);
    for (int64_t i = from; i < end; i += kStep) {
      const auto then = i + kStep < end ? column(i + kStep, end) : all_lanes(Op::none());
      put(i, i - from, columns.join(then, t.numbers + i - from));
    }
  }
}

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
