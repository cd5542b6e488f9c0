// Maxima of windows of three columns that advance by two, over planes that lie side by side: every
// column is joined once, and stays at hand for the next window.
#pragma once

#include "cpu/pool/strip_pool.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

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

template <class Op, class Finish>
class LaneThirdPool : StripPool<Op, Finish> {
  using Base = StripPool<Op, Finish>;
  using Base::op, Base::plan, Base::x;
  using Base::shape_, Base::fetches_, Base::rows_, Base::sink_, Base::room_;
  using typename Base::T, typename Base::V;

 public:
  using Base::Base;

  void operator()(const Task& task) {
    const Strip s(plan, shape_, task);
    fold_lanes(s, sink_.room(task.y, s));
    sink_.put(task.y, s);
  }

 private:
  [[gnu::noinline]] void fold_lanes(const Strip& s, T* to) {
    const auto& [task, c, lines] = s;
    Ahead ahead;
    const int64_t vectors = c.n * ((task.n + kLanes<V> - 1) / kLanes<V>);
    rows_.taps[0] = axis_taps(plan.axis[0], task.space(0));
    for (int64_t i = 0; i < lines.lines; ++i, to += c.n * task.n) {
      rows_.find(plan, x + task.x, lines.row(i));
      if (i == 0 && fetches_) ahead = ahead_of(plan, shape_, rows_, c, lines.lines * vectors);
      LaneThirds<T> t{{}, plan.x.space[2], c.begin, plan.axis[2].in - 1, c.n, task.n};
      for (int64_t r = 0; r < 3; ++r) t.row[r] = rows_.at[std::min(r, rows_.count - 1)];
      if (rows_.count > 0)
        join_lane_thirds(op, t, ahead, room_.line, to);
      else
        for (int64_t j = 0; j < c.n * task.n; ++j) store_part(op, to + j, all_lanes(Op::none()), 1);
    }
  }
};

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
