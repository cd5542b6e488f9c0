// Pooling without indices: output rows, lanes of neighbouring planes, and single windows.
#pragma once

#include "cpu/pool_finish.h"
#include "cpu/pool_pieces.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

template <class T, class Op, class Finish>
struct ValuePool {
  using V = typename Op::V;
  using Total = typename Op::Total;
  const PoolPlan& plan;
  Op op;
  Finish finish;
  const T* x;
  T* y;
};

/// One row of outputs: joins the rows of the windows, then the columns of the joined row.
template <class T, class Op, class Finish>
class RowPool : ValuePool<T, Op, Finish> {
  using Base = ValuePool<T, Op, Finish>;
  using V = typename Op::V;
  using Base::finish, Base::op, Base::plan, Base::x, Base::y;

 public:
  explicit RowPool(const Base& base) : Base(base) {}

  static bool suits(const PoolPlan& p) {
    return fits_rows(p) && most_taps(p, 2) + p.axis[2].window <= kChain;
  }

  void operator()(const Task& task) const {
    const PoolAxis& w = plan.axis[2];
    const Box rows = box_of(plan, task, 2);
    const int64_t begin = task.first * w.stride - w.start;
    const int64_t reach = (task.n - 1) * w.stride + (w.window - 1) * w.dilation + 1;
    const int64_t low = std::max<int64_t>(0, begin), high = std::min(w.in, begin + reach);
    Lines<V> lines;
    V room[kLine];
    V* out = room;
    const bool direct = std::is_same_v<T, V> && plan.y.space[2] == 1;
    if constexpr (std::is_same_v<T, V>) {
      if (direct) out = y + task.y;
    }
    if (rows.taps == 0 || low >= high) {
      for (int64_t i = 0; i < task.n; ++i) out[i] = Op::none();
    } else {
      const RowList<T> list(x + task.x + low * plan.x.space[2], rows, 0, rows.taps);
      const V* line = join_rows<T>(op, list.at, rows.taps, plan.x.space[2], high - low, lines);
      columns(task, rows, line, low, out);
    }
    if (!direct) op.store(y + task.y, plan.y.space[2], room, task.n);
  }

 private:
  /// line[i] holds column low + i of the input.
  void columns(const Task& task, const Box& rows, const V* line, int64_t low, V* out) const {
    const PoolAxis& w = plan.axis[2];
    const auto [from, to] = interior_of(w, task);
    const int64_t end = task.first + task.n;
    for (int64_t o = task.first; o < from; ++o)
      out[o - task.first] = edge(task, rows, line, low, o);
    if (from < to) {
      V* inner = out + (from - task.first);
      join_columns<Op>(line + (from * w.stride - w.start - low), w.window, w.stride, w.dilation,
                       inner, to - from);
      finish.row(inner, to - from, counted(plan, rows) * double(w.window),
                 [&, first = from](int64_t i) { return again(task, first + i); });
    }
    for (int64_t o = to; o < end; ++o) out[o - task.first] = edge(task, rows, line, low, o);
  }

  V edge(const Task& task, const Box& rows, const V* line, int64_t low, int64_t o) const {
    const PoolAxis& w = plan.axis[2];
    const Taps t = taps_at(w, o);
    const int64_t begin = o * w.stride - w.start - low;
    V v = Op::none();
    for (int64_t k = t.first; k < t.last; ++k) {
      const V column = line[begin + k * w.dilation];
      v = k == t.first ? column : Op::join(v, column);
    }
    if (t.real() == 0) return v;
    const double divisor = counted(plan, rows) * double(plan.include_padding ? t.inside : t.real());
    return finish.one(v, divisor, [&](int64_t) { return again(task, o); });
  }

  V again(const Task& task, int64_t o) const {
    const int64_t place[3] = {task.space(0), task.space(1), o};
    return scaled_norm<V>(plan, box_at(plan, place, 3), x + task.x);
  }
};

/// One window for each of many neighbouring planes: x is packed along the innermost batch
/// dimension.
template <class T, class Op, class Finish>
class LanePool : ValuePool<T, Op, Finish> {
  using Base = ValuePool<T, Op, Finish>;
  using V = typename Op::V;
  using Base::finish, Base::op, Base::plan, Base::x, Base::y;

 public:
  using typename Base::Total;
  static constexpr Lane kLane = Lane::batch;
  static constexpr int64_t kChunk = 512;
  explicit LanePool(const Base& base) : Base(base) {}
  static Total combine(Total a, Total b) { return Op::join(a, b); }

  void whole(const Task& task) const {
    const Box box = box_of(plan, task, 3);
    Lines<V> lines;
    V* out = lines.line;
    const auto rescue = [&](int64_t i) { return scaled_norm<V>(plan, box, x + task.x + i); };
    if (box.taps == 0) {
      for (int64_t i = 0; i < task.n; ++i) out[i] = Op::none();
    } else if (box.taps <= kChain) {
      const V* joined = run(task, box, 0, box.taps, lines);
      if (joined != out)
        for (int64_t i = 0; i < task.n; ++i) out[i] = joined[i];
      finish.row(out, task.n, counted(plan, box), rescue);
    } else {
      Total totals[kChunk];
      piece(task, box, 0, box.taps, totals);
      return store(task, box, totals);
    }
    op.store(y + task.y, plan.y.batch[1], out, task.n);
  }

  /// Joins taps [f, end) of a window; f < end.
  void piece(const Task& task, const Box& box, int64_t f, int64_t end, Total* totals) const {
    Lines<V> lines;
    for (bool first = true; f < end; first = false) {
      const int64_t n = std::min(kChain, end - f);
      const V* joined = run(task, box, f, n, lines);
      for (int64_t i = 0; i < task.n; ++i)
        totals[i] = first ? Total(joined[i]) : Op::join(totals[i], Total(joined[i]));
      f += n;
    }
  }

  void store(const Task& task, const Box& box, const Total* totals) const {
    V out[kChunk];
    for (int64_t i = 0; i < task.n; ++i)
      out[i] = finish.one(totals[i], counted(plan, box),
                          [&](int64_t) { return scaled_norm<V>(plan, box, x + task.x + i); });
    op.store(y + task.y, plan.y.batch[1], out, task.n);
  }

 private:
  const V* run(const Task& task, const Box& box, int64_t f, int64_t taps, Lines<V>& lines) const {
    const RowList<T> list(x + task.x, box, f, taps);
    return join_rows<T>(op, list.at, taps, 1, task.n, lines);
  }
};

/// One window at a time, vectors along its rows; takes any plan.
template <class T, class Op, class Finish>
class WindowPool : ValuePool<T, Op, Finish> {
  using Base = ValuePool<T, Op, Finish>;
  using V = typename Op::V;
  using Base::finish, Base::op, Base::plan, Base::x, Base::y;

 public:
  using typename Base::Total;
  static constexpr Lane kLane = Lane::none;
  static constexpr int64_t kChunk = 1;
  explicit WindowPool(const Base& base) : Base(base) {}
  static Total combine(Total a, Total b) { return Op::join(a, b); }

  void whole(const Task& task) const {
    const Box box = box_of(plan, task, 3);
    Total total = Op::none();
    if (box.taps > 0) piece(task, box, 0, box.taps, &total);
    store(task, box, &total);
  }

  void piece(const Task& task, const Box& box, int64_t f, int64_t end, Total* total) const {
    V room[kLine];
    TapCursor at(box, f);
    for (bool first = true; f < end; first = false) {
      const int64_t n = std::min({kLine, end - f, at.left_in_row()});
      const T* row = x + task.x + at.offset();
      const Total joined = join_run<Op>(terms<T>(op, row, box.x_step[2], n, room), n);
      *total = first ? joined : Op::join(*total, joined);
      at.advance(n);
      f += n;
    }
  }

  void store(const Task& task, const Box& box, const Total* total) const {
    const V v = box.taps == 0 ? Op::none() : finish.one(*total, counted(plan, box), [&](int64_t) {
      return scaled_norm<V>(plan, box, x + task.x);
    });
    op.store(y + task.y, 1, &v, 1);
  }
};

template <class T, class Op, class Finish>
void pool_values(const PoolPlan& plan, Op op, Finish finish, const void* x, void* y) {
  const ValuePool<T, Op, Finish> base{plan, op, finish, static_cast<const T*>(x),
                                      static_cast<T*>(y)};
  using Rows = RowPool<T, Op, Finish>;
  if (fits_lanes(plan)) return run_windows(LanePool<T, Op, Finish>(base), plan);
  if (!Rows::suits(plan)) return run_windows(WindowPool<T, Op, Finish>(base), plan);
  run_rows(Rows(base), plan);
}

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
