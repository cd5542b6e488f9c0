// Windows that advance by one over rows that fit a vector: columns are joined by turning it.
#pragma once

#include "cpu/pool/strip_pool.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

/// Joins the columns of rows of n columns: window begins `start` columns before its output.
template <class Op>
class TurnedRows {
  using T = typename Op::Element;
  using V = typename Op::V;
  using Lanes = Vector<V>;
  using Places = Vector<IntegerLike<V>>;

 public:
  TurnedRows(const Op& op, const PoolAxis& w, const T* end)
      : op_(op), n_(w.in), window_(w.window), end_(end) {
    for (int64_t i = 0; i < kLanes<V>; ++i) at_[i] = IntegerLike<V>(i);
    first_ = at_ - IntegerLike<V>(w.start);
  }

  /// Of two rows at once, as one alone would wait for each of its turns.
  void join(const T* a, const T* b, V* to_a, V* to_b) const {
    Lanes v = turned(load(a), first_), u = turned(load(b), first_);
    for (int64_t n = 1, step; n < window_; n += step) {
      step = std::min(n, window_ - n);
      const Places at = at_ + IntegerLike<V>(step);
      v = Op::join(v, turned(v, at));
      u = Op::join(u, turned(u, at));
    }
    store_vector(to_a, v);
    store_vector(to_b, u);
  }

 private:
  static Lanes turned(const Lanes& v, const Places& at) { return shuffled(v, at); }
  Lanes load(const T* row) const {
    const Lanes v = load_part(op_, row, n_, end_);
    return at_ < IntegerLike<V>(n_) + Places{} ? v : all_lanes(Op::none());
  }

  const Op op_;
  const int64_t n_, window_;
  const T* const end_;
  Places at_, first_;
};

/// Rows of a plane: their columns first, into `room`, then as many of them as the windows have.
/// Writes whole vectors from `to` on.
template <class Op>
[[gnu::noinline]] void join_turned(const Op op, const PoolPlan& p, const StripLines& lines,
                                   const typename Op::Element* plane,
                                   const typename Op::Element* end, typename Op::V* room,
                                   typename Op::Element* to) {
  using V = typename Op::V;
  constexpr int64_t kStep = kLanes<V>;
  const PoolAxis h = p.axis[1];
  const int64_t n = p.axis[2].in, rows = lines.rows, first = lines.first;
  const int64_t above = first - h.start, shift = h.dilation * kStep;
  const int64_t low = std::clamp<int64_t>(above, 0, h.in);
  const int64_t high = std::clamp<int64_t>(above + rows + (h.window - 1) * h.dilation, low, h.in);
  const TurnedRows<Op> turned(op, p.axis[2], end);
  for (int64_t r = low; r < high; r += 2) {
    const int64_t next = std::min(r + 1, high - 1);
    turned.join(plane + r * n, plane + next * n, room + (r - low) * kStep,
                room + (next - low) * kStep);
  }
  for (int64_t o = first; o < first + rows; ++o, to += n) {
    const AxisTaps taps = axis_taps(h, o);
    const V* const from = room + (taps.begin - low) * kStep;
    auto v = taps.count > 0 ? load_vector<Vector<V>>(from) : all_lanes(Op::none());
    for (int64_t k = 1; k < taps.count; ++k)
      v = Op::join(v, load_vector<Vector<V>>(from + k * shift));
    op.store(to, v);
  }
}

template <class Op, class Finish>
class ShortRowPool : StripPool<Op, Finish> {
  using Base = StripPool<Op, Finish>;
  using Base::op, Base::plan, Base::x, Base::end;
  using Base::shape_, Base::sink_, Base::room_;
  using typename Base::T, typename Base::V;

 public:
  using Base::Base;

  void operator()(const Task& task) {
    const Strip s(plan, shape_, task);
    T* const to = sink_.room(task.y, s);
    for (int64_t i = 0; i < s.lines.lines; i += s.lines.rows)
      join_turned(op, plan, s.lines, x + task.x + s.lines.plane(i) * plan.x.batch[1], end,
                  room_.line, to + i * s.columns.n);
    sink_.put(task.y, s);
  }
};

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
