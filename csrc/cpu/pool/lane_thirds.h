// Maxima of windows of three columns that advance by two, over planes that lie side by side: every
// column is joined once, and stays at hand for the next window.
#pragma once

#include "cpu/pool/columns.h"
#include "cpu/pool/reduce.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

/// Windows of three columns, every second one, each of which has a column, and of at most three
/// rows of one plane.
inline bool has_lane_thirds(const PoolPlan& p) {
  const PoolAxis &d = p.axis[0], &w = p.axis[2];
  return d.window == 1 && p.axis[1].window <= 3 && w.window == 3 && w.stride == 2 &&
         w.dilation == 1 && w.start < 3 && (w.out - 1) * 2 - w.start < w.in;
}

/// Three rows of taps, of columns `pitch` apart up to `last`; n windows, the first of them from
/// column `begin` on. Rows and columns that do not exist are others of the same window, which
/// changes no maximum.
template <class T>
struct LaneThirds {
  const T* row[3];
  int64_t pitch, begin, last, n, lanes;
};

/// Writes n outputs of `lanes` >= kLanes each; `room` takes one column.
template <class Op>
[[gnu::noinline]] void join_lane_thirds(const Op op, const LaneThirds<typename Op::Element> t,
                                        Ahead& ahead, typename Op::V* room,
                                        typename Op::Element* to) {
  using V = typename Op::V;
  constexpr int64_t kStep = kLanes<V>;
  const auto column = [&](int64_t i) {
    return std::clamp<int64_t>(t.begin + i, 0, t.last) * t.pitch;
  };
  const auto joined = [&](int64_t at) __attribute__((always_inline)) {
    return Op::join(Op::join(op.load(t.row[0] + at), op.load(t.row[1] + at)),
                    op.load(t.row[2] + at));
  };
  const int64_t end = t.lanes - kStep;  // where the last vector begins
  for (int64_t i = 0, from = column(0); i < t.lanes; i += kStep)
    store_vector(room + i, joined(from + std::min(i, end)));
  Ahead next = ahead;
  for (int64_t j = 1; j < 2 * t.n; j += 2, to += t.lanes) {
    const int64_t middle = column(j), right = column(j + 1);
    for (int64_t i = 0; i < t.lanes; i += kStep) {
      const int64_t at = std::min(i, end);
      const auto left = load_vector<Vector<V>>(room + i), last = joined(right + at);
      store_vector(room + i, last);
      op.store(to + at, Op::join(Op::join(left, joined(middle + at)), last));
      next.template fetch<3>();
    }
  }
  ahead.at = next.at;
}

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
