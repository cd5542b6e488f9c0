// Windows of two or three columns that advance by two, or of four or five that advance by four:
// rows of taps are joined, then their columns, in registers.
#pragma once

#include "cpu/pool/columns.h"
#include "cpu/pool/reduce.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

/// `count` rows of taps of each of `lines` rows of n outputs; they stand `step` elements after
/// those of the line before.
template <class T>
struct PairLines {
  const T* const* rows;
  int64_t count, step, n, lines;
};

/// Where the third column of windows stands: before the pair or behind it, if there is one.
enum class Third { none, before, after };

/// Outputs i of a line join columns 2 * i and 2 * i + 1, and the third. Calls put(at, i, v) for
/// every vector of them, where `at` counts from the first line on. kRows is the count of rows, or 0
/// for the one given.
template <int kRows, Third kThird, class Op, class Put>
[[gnu::always_inline]] inline void join_pairs(const Op tap, const PairLines<typename Op::Element> t,
                                              Ahead& ahead, const Put put) {
  using T = typename Op::Element;
  constexpr int64_t kStep = kLanes<typename Op::V>;
  constexpr auto kAll = std::make_index_sequence<size_t(kStep)>{};
  const std::conditional_t<kThird == Third::none, Op, FarOf<Op>> op{tap};
  const T* own[kRows ? kRows : 1];  // in registers
  if constexpr (kRows > 0) std::copy_n(t.rows, kRows, own);
  const T* const* const rows = kRows ? own : t.rows;
  Ahead next = ahead;
  for (int64_t line = 0, from = 0, to = 0; line < t.lines; ++line, from += t.step, to += t.n) {
    const auto pairs_at = [&](int64_t i) __attribute__((always_inline)) {
      const auto a = join_vectors<kRows>(op, rows, t.count, from + 2 * i);
      const auto b = join_vectors<kRows>(op, rows, t.count, from + 2 * i + kStep);
      next.fetch_near();
      return std::pair(pick<0, 2>(a, b, kAll), pick<1, 2>(a, b, kAll));
    };
    if constexpr (kThird == Third::after) {
      auto now = pairs_at(0);
      for (int64_t i = 0; i < t.n; i += kStep) {
        const auto then = i + kStep <= t.n ? pairs_at(i + kStep) : now;
        const auto third = pick<1, 1>(now.first, then.first, kAll);
        put(to + i, i, Op::join(Op::join(now.first, now.second), third));
        now = then;
      }
    } else {
      auto before = all_lanes(Op::none());
      for (int64_t i = 0; i < t.n; i += kStep) {
        const auto [even, odd] = pairs_at(i);
        auto v = Op::join(even, odd);
        if constexpr (kThird == Third::before) {
          v = Op::join(v, pick<kStep - 1, 1>(before, odd, kAll));
          before = odd;
        }
        put(to + i, i, v);
      }
    }
  }
  ahead.at = next.at;
}

/// Outputs i of a line join columns from + 4 * i to 4 * i + 3, and the one behind where `five`.
template <class Op, class Put>
[[gnu::always_inline]] inline void join_fourths(const Op op,
                                                const PairLines<typename Op::Element> t,
                                                int64_t from, bool five, Ahead& ahead,
                                                const Put put) {
  using V = typename Op::V;
  Ahead next = ahead;
  for (int64_t line = 0, to = 0; line < t.lines; ++line, from += t.step, to += t.n)
    join_near_fourths<typename Op::Join, V>(
        t.n, five,
        [&](int64_t i, int64_t k) __attribute__((always_inline)) {
          return join_vectors<0>(op, t.rows, t.count, from + 4 * i + k * kLanes<V>);
        },
        [&](int64_t i, const Vector<V>& v) __attribute__((always_inline)) {
          put(to + i, i, v);
          next.fetch();
        });
  ahead.at = next.at;
}

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
