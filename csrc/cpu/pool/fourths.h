// Windows of four or five columns that advance by four.
#pragma once

#include "cpu/pool/folds.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

/// Outputs i of a line join columns from + 4 * i to 4 * i + 3, and the one behind where `five`.
template <class Op, class Put>
[[gnu::always_inline]] inline void join_fourths(const Op op,
                                                const FoldedLines<typename Op::Element> t,
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

struct FourthFold {
  template <class V>
  static int64_t reach(const PoolAxis&, const StripColumns& c) {
    const int64_t vectors = (c.n + kLanes<V> - 1) / kLanes<V>;
    return c.high - c.low < c.columns ? -1 : c.begin + (vectors + 1) * 4 * kLanes<V>;
  }
  template <class T>
  static Ahead ahead(const PoolPlan& p, const StripShape& shape, const StripRows<T>& rows,
                     const Strip& s, int64_t step) {
    return ahead_of(p, shape, rows, s.columns, s.lines.lines * ((s.columns.n + step - 1) / step));
  }
  template <class Op, class Put>
  [[gnu::noinline]] static void join(const Op& op, const PoolAxis& w, const StripColumns& c,
                                     const FoldedLines<typename Op::Element>& t, bool, Ahead& ahead,
                                     const Put& put) {
    join_fourths(op, t, c.begin, w.window == 5, ahead, put);
  }
};

template <class Op, class Finish>
using FourthPool = FoldPool<FourthFold, Op, Finish>;

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
