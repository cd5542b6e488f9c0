// Pooling without indices by strips, and the choice of how a plan is computed.
#pragma once

#include "cpu/pool_windows.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

/// Strips: joins the rows of the windows, then the columns of the joined line.
template <class Op, class Finish>
class StripPool : ValuePool<Op, Finish> {
  using Base = ValuePool<Op, Finish>;
  using Base::finish, Base::op, Base::plan, Base::x, Base::y, Base::end;
  using typename Base::T, typename Base::V;

 public:
  StripPool(const Base& base, const StripShape& shape, bool streamed)
      : Base(base),
        shape_(shape),
        fetches_(is_streamed(input_bytes(plan))),
        joins_taps_(joins_taps(plan, shape)),
        joins_planes_(joins_planes(plan, shape)),
        sink_(y, plan.y, plan, shape, streamed) {}

  void operator()(const Task& task) {
    const PoolAxis& w = plan.axis[2];
    const StripColumns c = columns_of(w, shape_, task);
    const StripLines lines(plan, shape_, task);
    const ColumnShape s{
        w.window, w.stride, w.dilation, task.n, c.n, lines.lines, line_pitch(c.columns * task.n)};
    T* const to = sink_.room(task.y, lines, c.n, task.n);
    V* joined = room_.out;
    if constexpr (kDirect) joined = to;
    double counts[kMostLines];
    if (joins_taps_)
      join_taps(task, c, lines, s, joined, counts);
    else if (joins_planes_)
      join_planes(task, lines, s, joined, counts);
    else
      join_lines(task, c, lines, s, joined, counts);
    if constexpr (!kDirect) finish_lines(task, c, lines, counts, to);
    sink_.put(task.y, lines, c.n, task.n);
  }

 private:
  /// Joined values are outputs as they are.
  static constexpr bool kDirect = std::is_same_v<Finish, MaxFinish> && std::is_floating_point_v<T>;

  /// Values of a column that are joined between two fetches of memory.
  static constexpr int64_t kSpan = 4 * kLanes<V>;

  /// Columns of many lanes are joined from the taps themselves where these are few: there is
  /// little to gain from a line between.
  static bool joins_taps(const PoolPlan& p, const StripShape& s) {
    constexpr int64_t kFewTaps = 4;
    return s.lanes >= kLanes<V> && s.planes > 1 && most_taps(p, 2) * p.axis[2].window <= kFewTaps;
  }

  void join_taps(const Task& task, const StripColumns& c, const StripLines& lines,
                 const ColumnShape& s, V* joined, double* counts) {
    rows_.taps[0] = axis_taps(plan.axis[0], task.space(0));
    Ahead ahead;
    for (int64_t i = 0; i < lines.lines; ++i) {
      rows_.find(plan, x + task.x, lines.row(i));
      counts[i] = plan.include_padding ? rows_.inside() : double(rows_.count);
      if (i == 0 && fetches_)
        ahead = ahead_of(plan, shape_, rows_, c, s.lines * c.n * ((s.lanes + kSpan - 1) / kSpan));
      for (int64_t o = c.first; o < c.first + c.n; ++o, joined += s.lanes) {
        const AxisTaps taps = axis_taps(plan.axis[2], o);
        join_window(taps, s.lanes, joined, ahead);
      }
    }
  }

  void join_window(const AxisTaps& taps, int64_t lanes, V* joined, Ahead& ahead) {
    const T* at[8];
    int64_t n = 0;
    const int64_t pitch = plan.x.space[2], step = plan.axis[2].dilation * pitch;
    for (int64_t r = 0; r < rows_.count; ++r)
      for (int64_t k = 0; k < taps.count; ++k)
        at[n++] = rows_.at[r] + taps.begin * pitch + k * step;
    if (n == 0) return fill_values(joined, lanes, Op::none());
    for (int64_t i = 0; i < lanes; i += kSpan) {
      join_rows(op, at, n, i, std::min(kSpan, lanes - i), end, joined + i);
      ahead.fetch();
    }
  }

  /// Steps of 1 from and to rows of the same length without gaps: rows are one long line, in which
  /// only the windows at its ends and where two rows meet come out wrong.
  static bool joins_planes(const PoolPlan& p, const StripShape& s) {
    const PoolAxis& w = p.axis[2];
    return w.stride == 1 && w.out == w.in && s.outputs == w.out && p.axis[1].stride == 1 &&
           p.axis[1].out > 1 && p.x.space[2] == s.lanes && p.x.space[1] == w.in * s.lanes;
  }

  void join_planes(const Task& task, const StripLines& lines, ColumnShape s, V* joined,
                   double* counts) {
    const PoolAxis &h = plan.axis[1], &w = plan.axis[2];
    constexpr int64_t kAlign = 64 / int64_t(sizeof(V));
    const int64_t row = w.in * s.lanes, before = w.start * s.lanes;
    V* const line = room_.line + (before + kAlign - 1) / kAlign * kAlign;
    Ahead ahead;
    rows_.taps[0] = axis_taps(plan.axis[0], task.space(0));
    const Interior whole = interior_of(h, lines.first, lines.first + lines.rows);
    for (int64_t i = 0, n; i < lines.lines; i += n) {
      const int64_t o = lines.row(i);
      rows_.find(plan, x + task.x + lines.plane(i) * plan.x.batch[1], o);
      n = o >= whole.from && o < whole.to ? whole.to - o : 1;
      for (int64_t j = i; j < i + n; ++j)
        counts[j] = plan.include_padding ? rows_.inside() : double(rows_.count);
      if (i == 0 && fetches_) ahead = ahead_of(plan, shape_, rows_, {}, s.fetches(kLanes<V>));
      if (rows_.count > 0)
        join_rows(op, rows_.at, rows_.count, 0, n * row, end, line + i * row);
      else
        fill_values(line + i * row, n * row, Op::none());
    }
    s.columns *= s.lines;
    s.lines = 1;
    join_columns<typename Op::Join>(line - before, s, room_.spare, joined, ahead);
    const Interior inner = interior_of(w, 0, w.out);
    for (int64_t i = 0; i < lines.lines; ++i, joined += row) {
      for (int64_t o = 0; o < inner.from; ++o) join_edge(line + i * row, o, s.lanes, joined);
      for (int64_t o = inner.to; o < w.out; ++o) join_edge(line + i * row, o, s.lanes, joined);
    }
  }

  /// Output o of a row, whose window is not whole.
  void join_edge(const V* row, int64_t o, int64_t lanes, V* joined) const {
    const AxisTaps taps = axis_taps(plan.axis[2], o);
    const int64_t step = plan.axis[2].dilation * lanes;
    for (int64_t c = 0; c < lanes; ++c) {
      V v = taps.count > 0 ? row[taps.begin * lanes + c] : Op::none();
      for (int64_t k = 1; k < taps.count; ++k)
        v = Op::Join::join(v, row[taps.begin * lanes + c + k * step]);
      joined[o * lanes + c] = v;
    }
  }

  void join_lines(const Task& task, const StripColumns& c, const StripLines& lines,
                  const ColumnShape& s, V* joined, double* counts) {
    V* line = room_.line + skew_of(c, task.n);
    Ahead ahead;
    const T* plane = x + task.x;
    rows_.taps[0] = axis_taps(plan.axis[0], task.space(0));
    const Interior whole = interior_of(plan.axis[1], lines.first, lines.first + lines.rows);
    int64_t o = lines.first;
    for (int64_t i = 0; i < lines.lines; ++i, ++o, line += s.pitch) {
      if (o == lines.first + lines.rows) {
        o = lines.first;
        plane += plan.x.batch[1];
      }
      if (o > lines.first && o > whole.from && o < whole.to)
        rows_.advance(plan);
      else
        rows_.find(plan, plane, o);
      if (i == 0 && fetches_) ahead = ahead_of(plan, shape_, rows_, c, s.fetches(kLanes<V>));
      counts[i] = plan.include_padding ? rows_.inside() : double(rows_.count);
      fill_line(c, task.n, line);
    }
    join_columns<typename Op::Join>(line - lines.lines * s.pitch, s, room_.spare, joined, ahead);
  }

  /// Lines begin so that their real columns are aligned.
  static int64_t skew_of(const StripColumns& c, int64_t lanes) {
    constexpr int64_t kAlign = 64 / int64_t(sizeof(V));
    return int64_t(-uint64_t((c.low - c.begin) * lanes) % kAlign);
  }

  /// Outputs of all lines; neighbouring lines whose windows count alike at once.
  void finish_lines(const Task& task, const StripColumns& c, const StripLines& lines,
                    const double* counts, T* to) {
    const int64_t line = c.n * task.n;
    for (int64_t first = 0, end; first < lines.lines; first = end) {
      for (end = first + 1; end < lines.lines && counts[end] == counts[first];) ++end;
      const OutputRun run{c.first, c.n, task.n, end - first, counts[first]};
      finish.write(op, run, room_.out + first * line, to + first * line, [&](int64_t i) {
        const int64_t j = first + i / line, column = i % line;
        const int64_t place[3] = {task.space(0), lines.row(j), c.first + column / task.n};
        const int64_t plane = lines.plane(j) * plan.x.batch[1];
        return this->again(box_at(plan, place, 3), task.x + plane + column % task.n);
      });
    }
  }

  /// The columns of one line, joined along the rows; padding is nothing.
  void fill_line(const StripColumns& c, int64_t lanes, V* begin) {
    const int64_t values = c.columns * lanes;
    if (rows_.count == 0 || c.low >= c.high) return fill_values(begin, values, Op::none());
    const int64_t left = (c.low - c.begin) * lanes, real = (c.high - c.low) * lanes;
    if (left > 0) fill_values(begin, left, Op::none());
    join_real(rows_, c, lanes, begin + left);
    fill_values(begin + left + real, values - left - real, Op::none());
  }

  void join_real(const StripRows<T>& rows, const StripColumns& c, int64_t lanes, V* line) {
    const int64_t pitch = plan.x.space[2];
    if (pitch == lanes)
      return join_rows(op, rows.at, rows.count, c.low * pitch, (c.high - c.low) * lanes, end, line);
    if (shape_.planes > 1) {
      for (int64_t i = c.low; i < c.high; ++i, line += lanes)
        join_rows(op, rows.at, rows.count, i * pitch, lanes, end, line);
      return;
    }
    T row[StripRoom<V>::kValues];
    for (int64_t r = 0; r < rows.count; ++r) {
      for (int64_t i = c.low; i < c.high; ++i) row[i - c.low] = rows.at[r][i * pitch];
      for (int64_t i = 0; i < c.high - c.low; i += kLanes<V>) {
        const auto v = op.load(row + i);
        store_vector(line + i, r ? Op::join(load_vector<Vector<V>>(line + i), v) : v);
      }
    }
  }

  const StripShape shape_;
  const bool fetches_, joins_taps_, joins_planes_;
  StripRows<T> rows_;
  StripSink<T> sink_;
  StripRoom<V> room_;
};

template <class Op, class Finish>
void pool_strips(const ValuePool<Op, Finish>& base, const StripShape& shape) {
  const TaskSpace space = strip_tasks(base.plan, shape);
  const bool streamed = is_streamed(base.plan.outputs() * int64_t(sizeof(*base.y)));
  parallel_for(space.count(), work_bytes(base.plan), [&](int64_t begin, int64_t end) {
    StripPool<Op, Finish> strips(base, shape, streamed);
    for_tasks(space, begin, end, [&](const Task& task, int64_t) { strips(task); });
  });
}

template <class Op, class Finish>
void pool_planes(const ValuePool<Op, Finish>& base) {
  using Planes = PlanePool<Op, Finish>;
  const TaskSpace space = make_tasks(base.plan, Lane::batch, Planes::kChunk);
  const Planes planes(base);
  parallel_for(space.count(), work_bytes(base.plan), [&](int64_t begin, int64_t end) {
    for_tasks(space, begin, end, [&](const Task& task, int64_t) { planes(task); });
  });
}

template <class Op, class Finish>
void pool_values(const PoolPlan& plan, Op op, Finish finish, const void* x, void* y) {
  using T = typename Op::Element;
  using V = typename Op::V;
  const T* const first = static_cast<const T*>(x);
  const ValuePool<Op, Finish> base{
      plan, op, finish, first, static_cast<T*>(y), end_of_x(plan, first)};
  const StripShape shape = strip_shape(plan, kLineBytes / int64_t(sizeof(V)), Sink<T>::kPiece);
  if (shape.fits()) {
    finish.prepare(plan);
    return pool_strips(base, shape);
  }
  if (PlanePool<Op, Finish>::suits(plan)) return pool_planes(base);
  if (fits_lanes(plan)) return run_windows(LanePool<Op, Finish>(base), plan);
  run_windows(WindowPool<Op, Finish>(base), plan);
}

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
