// Windows of two or three columns that advance by two.
#pragma once

#include "cpu/pool/folds.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

/// Where the third column of windows stands: before the pair or behind it, if there is one.
enum class Third { none, before, after };

/// Outputs i of a line join columns 2 * i and 2 * i + 1, and the third. kRows is the
/// count of rows, or 0 for the one given.
template <int kRows, Third kThird, class Op, class Put>
[[gnu::always_inline]] inline void join_pairs(const Op tap,
                                              const FoldedLines<typename Op::Element> t,
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
        auto v = even;
        if constexpr (kThird == Third::before) {
          v = Op::join(pick<kStep - 1, 1>(before, odd, kAll), v);
          before = odd;
        }
        put(to + i, i, Op::join(v, odd));
      }
    }
  }
  ahead.at = next.at;
}

struct PairFold {
  template <class V>
  static int64_t reach(const PoolAxis& w, const StripColumns& c) {
    const bool late = w.window == 3 && w.start == 0;
    return (c.n + late + kLanes<V> - 1) / kLanes<V> * 2 * kLanes<V>;
  }
  template <class T>
  static Ahead ahead(const PoolPlan& p, const StripShape&, const StripRows<T>& rows, const Strip& s,
                     int64_t step) {
    return near_ahead(p, rows, (s.columns.n + step - 1) / step);
  }
  template <class Op, class Put>
  static void join(const Op& op, const PoolAxis& w, const StripColumns&,
                   const FoldedLines<typename Op::Element>& t, bool far, Ahead& ahead,
                   const Put& put) {
    if (w.window == 2) return join_rows<Third::none>(op, t, far, ahead, put);
    if (w.start == 0) return join_rows<Third::after>(op, t, far, ahead, put);
    join_rows<Third::before>(op, t, far, ahead, put);
  }

 private:
  template <Third kThird, class Op, class Put>
  static void join_rows(const Op& op, const FoldedLines<typename Op::Element>& t, bool far,
                        Ahead& ahead, const Put& put) {
    constexpr int kUsual = kThird == Third::none ? 2 : 3;
    // Pairs of long rows arrive from memory a tenth faster where a loop reads them.
    const bool loops = kThird == Third::none && far && t.n > 2 * kLanes<typename Op::V>;
    if (t.count == kUsual && !loops) return join_row<kUsual, kThird>(op, t, ahead, put);
    join_row<0, kThird>(op, t, ahead, put);
  }

  template <int kRows, Third kThird, class Op, class Put>
  [[gnu::noinline]] static void join_row(const Op& op, const FoldedLines<typename Op::Element>& t,
                                         Ahead& ahead, const Put& put) {
    join_pairs<kRows, kThird>(op, t, ahead, put);
  }
};

template <class Op, class Finish>
using PairPool = FoldPool<PairFold, Op, Finish>;

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
