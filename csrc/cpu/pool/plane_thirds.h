// Windows of three columns that advance by one, on rows that follow each other without gaps: the
// rows are joined, then each column with its neighbours, in registers.
#pragma once

#include "cpu/memory/tuning.h"
#include "cpu/pool/strip_pool.h"
#include "cpu/pool/strip_shape.h"
#include "cpu/pool/thirds.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

/// Rows of taps of a plane of outputs, lines of `in`. That of output i stands at at[k] + i, which
/// is real where i + shift[k] is one of the `size` elements of its plane of taps.
template <class Op>
struct PlaneTaps {
  using T = typename Op::Element;
  using Number = std::make_unsigned_t<IntegerLike<typename Op::V>>;
  static constexpr int64_t kMost = kRowsAtOnce;
  int64_t count, size, in;
  const T* at[kMost];
  int64_t shift[kMost];  // the first is the least, the last the largest
};

/// Vector i of the rows joined, of taps that may not exist.
template <class Op>
[[gnu::noinline]] Vector<typename Op::V> edge_of_plane(const Op& op, const PlaneTaps<Op>& t,
                                                       int64_t i) {
  using Number = typename PlaneTaps<Op>::Number;
  constexpr int64_t kStep = kLanes<typename Op::V>;
  auto joined = all_lanes(Op::none());
  for (int64_t k = 0; k < t.count; ++k) {
    const int64_t place = i + t.shift[k];
    if (place >= 0 && place + kStep <= t.size) {
      joined = Op::join(joined, op.load(t.at[k] + i));
      continue;
    }
    const int64_t low = std::clamp<int64_t>(-place, 0, kStep);
    const int64_t high = std::clamp<int64_t>(t.size - place, low, kStep);
    auto v = load_between(op, t.at[k] + i, low, high);
    if constexpr (Op::kRepeats) {
      Vector<Number> lane;
      for (int64_t j = 0; j < kStep; ++j) lane[j] = Number(j);
      const auto size = Vector<Number>{} + Number(high - low);
      v = lane - Number(low) < size ? v : all_lanes(Op::none());
    }
    joined = Op::join(joined, v);
  }
  return joined;
}

/// Calls put(i, v) for every vector of the outputs [from, end), whole lines; i counts from 0 on.
/// For each of them `numbers` tells the column before, a Number by its bits.
template <int kRows, class Op, class Put>
[[gnu::always_inline]] inline void join_plane_thirds(const Op op, const PlaneTaps<Op>& t,
                                                     int64_t from, int64_t end,
                                                     const typename Op::V* numbers, const Put put) {
  using V = typename Op::V;
  constexpr int64_t kStep = kLanes<V>;
  const int64_t count = kRows ? kRows : t.count;
  const typename Op::Element* own[kRows ? kRows : 1];  // in registers
  if constexpr (kRows > 0) std::copy_n(t.at, kRows, own);
  const typename Op::Element* const* const rows = kRows ? own : t.at;
  const int64_t first = -t.shift[0], last = t.size - t.shift[count - 1] - kStep;
  Neighbours<Op> columns(edge_of_plane(op, t, from), t.in);
  int64_t i = from;
  const auto join = [&](const Vector<V>& then) __attribute__((always_inline)) {
    put(i - from, columns.join(then, numbers + i - from));
    i += kStep;
  };
  while (i < end) {
    const int64_t plain = i + kStep >= first ? std::min(end, last - kStep + 1) : i;
    while (i < plain) join(join_vectors<kRows>(op, rows, count, i + kStep));
    if (i < end) join(edge_of_plane(op, t, i + kStep));
  }
}

template <class Op, class Finish>
class PlaneThirdPool : StripPool<Op, Finish> {
  using Base = StripPool<Op, Finish>;
  using Base::finish, Base::op, Base::plan, Base::x, Base::end;
  using Base::shape_, Base::fetches_, Base::rows_, Base::sink_, Base::room_;
  using typename Base::T, typename Base::V;

 public:
  PlaneThirdPool(const typename Base::Base& base, const StripShape& shape) : Base(base, shape) {
    number_columns(plan.axis[2], 1, shape.rows * plan.axis[2].in, room_.spare);
    std::fill_n(counts_, kMostLines, -1.0);
  }

  void operator()(const Task& task) {
    const Strip s(plan, shape_, task);
    join_neighbours(s, sink_.room(task.y, s));
    sink_.put(task.y, s);
  }

 private:
  /// Planes of windows of three columns, joined and finished in registers.
  [[gnu::noinline]] void join_neighbours(const Strip& s, T* to) {
    const auto& [task, c, lines] = s;
    constexpr int64_t kAhead = tuning::pool::kNearBytes / sizeof(T);
    const PoolAxis &h = plan.axis[1], &w = plan.axis[2];
    rows_.taps[0] = axis_taps(plan.axis[0], task.space(0));
    write_divisors(s);
    PlaneTaps<Op> taps{0, h.in * w.in, w.in, {}, {}};
    for (int64_t a = 0; a < rows_.taps[0].count; ++a)
      for (int64_t b = 0; b < h.window; ++b) {
        const int64_t shift = (b * h.dilation - h.start) * w.in;
        const int64_t plane = rows_.taps[0].begin + a * plan.axis[0].dilation;
        taps.at[taps.count] = x + task.x + plane * plan.x.space[0] + shift;
        taps.shift[taps.count++] = shift;
      }
    const int64_t from = lines.first * w.in, n = lines.rows * w.in;
    for (int64_t i = 0; i < lines.lines; i += lines.rows, to += n) {
      const T* const next = taps.at[taps.count / 2] + from + kAhead;
      const auto put = [=, op = this->op, fetches = fetches_,
                        last = finish.of_divisors(room_.line)](int64_t at, const Vector<V>& v) {
        op.store(to + at, last(v, at));
        if (fetches) __builtin_prefetch(next + at, 0, 3);
      };
      if (taps.count == 3)
        join_plane_thirds<3>(op, taps, from, from + n, room_.spare, put);
      else if (taps.count > 0)
        join_plane_thirds<0>(op, taps, from, from + n, room_.spare, put);
      else
        for (int64_t j = 0; j < n; j += kLanes<V>) put(j, all_lanes(Op::none()));
      for (int64_t k = 0; k < taps.count; ++k) taps.at[k] += plan.x.batch[1];
    }
  }

  /// Divisors of the first of the strip's planes, into room_.line: those of lines that count
  /// otherwise than they did in the strip before.
  void write_divisors(const Strip& s) {
    const auto& [task, c, lines] = s;
    if (Base::kStores || (divided_[0] == task.space(0) && divided_[1] == lines.first)) return;
    divided_[0] = task.space(0);
    divided_[1] = lines.first;
    const int64_t n = plan.axis[2].in;
    const AxisTaps& d = rows_.taps[0];
    const double planes = double(plan.include_padding ? d.inside : d.count);
    const Interior whole = interior_of(plan.axis[1], lines.first, lines.first + lines.rows);
    for (int64_t i = 0; i < lines.rows; ++i) {
      const int64_t o = lines.first + i;
      int64_t rows = plan.axis[1].window;
      if (o < whole.from || o >= whole.to) {
        const AxisTaps h = axis_taps(plan.axis[1], o);
        rows = plan.include_padding ? h.inside : h.count;
      }
      const double count = planes * double(rows);
      if (count == counts_[i]) continue;
      finish.divisors(count, n, room_.line + i * n);
      counts_[i] = count;
    }
  }

  // Of the lines whose divisors stand in room_.line: what they count, where they are.
  double counts_[kMostLines];
  int64_t divided_[2] = {-1, -1};
};

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
