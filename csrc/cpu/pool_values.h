// Pooling without indices by strips, and the choice of how a plan is computed.
#pragma once

#include "cpu/pool_lane_thirds.h"
#include "cpu/pool_taps.h"
#include "cpu/pool_thirds.h"
#include "cpu/pool_turns.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

/// Steps of 1 from and to rows of the same length without gaps: rows are one long line.
template <class V>
bool joins_planes(const PoolPlan& p, const StripShape& s) {
  const PoolAxis& w = p.axis[2];
  return w.stride == 1 && w.out == w.in && s.outputs == w.out && p.axis[1].stride == 1 &&
         p.axis[1].out > 1 && p.x.space[2] == s.lanes && p.x.space[1] == w.in * s.lanes &&
         w.start < s.span && w.in + s.span <= std::numeric_limits<IntegerLike<V>>::max();
}

/// Of those, windows of three columns that begin one before their output.
inline bool has_thirds(const PoolPlan& p, const StripShape& s) {
  const PoolAxis& w = p.axis[2];
  return s.lanes == 1 && w.window == 3 && w.start == 1 && w.dilation == 1;
}

/// The shape of strips of a plan, without outputs where strips do not suit it. `thirds`: those of
/// has_lane_thirds() need no line, and take all planes at once.
template <class V>
StripShape value_shape(const PoolPlan& p, int64_t piece, bool thirds) {
  constexpr int64_t kValues = kLineBytes / int64_t(sizeof(V));
  StripShape s = strip_shape(p, kValues, piece);
  if (thirds && s.fits() && s.lanes < s.planes && s.planes <= piece && has_lane_thirds(p)) {
    s.lanes = s.planes;
    s.outputs = even_part(p.axis[2].out, piece / s.lanes);
  }
  if (!s.fits() || !joins_planes<V>(p, s)) return s;
  const int64_t row = p.axis[2].in * s.lanes, room = kValues - s.span * s.lanes;
  stack_lines(p, std::min({kMostLines, room / row, piece / row}), s);
  return s;
}

/// Strips: joins the rows of the windows, then the columns of the joined line.
template <class Op, class Finish>
class StripPool : ValuePool<Op, Finish> {
  using Base = ValuePool<Op, Finish>;
  using Base::finish, Base::op, Base::plan, Base::x, Base::y, Base::end;
  using typename Base::T, typename Base::V;

 public:
  /// Maxima of three columns of planes side by side are joined without a line of them.
  static constexpr bool kLaneThirds =
      std::is_same_v<Finish, MaxFinish> && Base::kIsLarge && sizeof(T) > 1;

  StripPool(const Base& base, const StripShape& shape, bool streamed)
      : Base(base),
        shape_(shape),
        joins_planes_(joins_planes<V>(plan, shape)),
        thirds_(Base::kIsLarge && joins_planes_ && has_thirds(plan, shape)),
        turns_(kTurns && joins_planes_ && !thirds_ && turns_rows<V>(plan, shape)),
        lane_thirds_(kLaneThirds && shape.planes > 1 && shape.lanes == shape.planes &&
                     shape.lanes >= kLanes<V> && has_lane_thirds(plan)),
        folds_(kFolds && folds_pairs(plan, shape)),
        fetches_(is_streamed(input_bytes(plan)) &&
                 !(joins_planes_ && !thirds_ && has_short_rows())),
        sink_(y, plan.y, plan, shape, streamed) {
    if (joins_planes_) number_columns();
  }

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
    bool done = kDirect;
    if (folds_) {
      if constexpr (kFolds) fold_lines(task, c, lines, joined, to, counts);
      done = kStores;
    } else if (lane_thirds_) {
      if constexpr (kLaneThirds) fold_lanes(task, c, lines, to);
      done = true;
    } else if (thirds_) {
      if constexpr (Base::kIsLarge) join_neighbours(task, lines, to);
      done = true;
    } else if (turns_) {
      for (int64_t i = 0; kTurns && i < lines.lines; i += lines.rows)
        join_turned(op, plan, lines, x + task.x + lines.plane(i) * plan.x.batch[1], end, room_.line,
                    to + i * c.n);
      done = true;
    } else if (joins_planes_) {
      join_planes(task, lines, s, joined, counts);
    } else {
      join_lines(task, c, lines, s, joined, counts);
    }
    if (!done) finish_lines(task, c, lines, counts, to);
    sink_.put(task.y, lines, c.n, task.n);
  }

 private:
  /// Joined values are outputs once they are stored as elements, or even as they are.
  static constexpr bool kStores = std::is_same_v<Finish, MaxFinish>;
  static constexpr bool kDirect = kStores && std::is_floating_point_v<T>;
  static constexpr bool kTurns = kStores && Base::kIsUsual && kTurnsVectors<V>;
  static constexpr bool kFolds = Base::kIsUsual || std::is_same_v<Finish, LpFinish<float>>;
  /// The processor itself fetches these in time; to fetch them again takes longer.
  bool has_short_rows() const { return plan.axis[2].in * shape_.lanes * int64_t(sizeof(T)) <= 256; }

  [[gnu::noinline]] void fold_lanes(const Task& task, const StripColumns& c,
                                    const StripLines& lines, T* to) {
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

  /// Lines of pairs of columns, rows and columns joined in registers.
  [[gnu::noinline]] void fold_lines(const Task& task, const StripColumns& c,
                                    const StripLines& lines, V* joined, T* to, double* counts) {
    const PoolAxis& w = plan.axis[2];
    Ahead ahead;
    rows_.taps[0] = axis_taps(plan.axis[0], task.space(0));
    const Interior whole = interior_of(plan.axis[1], lines.first, lines.first + lines.rows);
    const bool late = w.window == 3 && w.start == 0;
    const int64_t reach = (c.n + late + kLanes<V> - 1) / kLanes<V> * 2 * kLanes<V>;
    const T* plane = x + task.x;
    for (int64_t i = 0, o = lines.first; i < lines.lines; ++i, ++o, joined += c.n, to += c.n) {
      rows_.follow(plan, lines, whole, o, plane);
      if constexpr (!kStores)
        counts[i] = plan.include_padding ? rows_.inside() : double(rows_.count);
      if (i == 0 && fetches_) ahead = near_ahead(plan, rows_, (c.n + kLanes<V> - 1) / kLanes<V>);
      V* const line = kStores ? reinterpret_cast<V*>(to) : joined;
      if (rows_.count == 0 || end - rows_.at[rows_.count - 1] < reach)
        join_line(c, line);
      else if (late)
        fold_rows<Third::after>(c.n, ahead, line);
      else if (w.window == 3)
        fold_rows<Third::before>(c.n, ahead, line);
      else
        fold_rows<Third::none>(c.n, ahead, line);
    }
  }

  /// Where the third column of windows stands: before the pair or behind it, if there is one.
  enum class Third { none, before, after };

  template <Third kThird>
  void fold_rows(int64_t n, Ahead& ahead, V* line) const {
    constexpr int kUsual = kThird == Third::none ? 2 : 3;
    if (rows_.count == kUsual) return fold_row<kUsual, kThird>(n, ahead, line);
    fold_row<0, kThird>(n, ahead, line);
  }

  /// Outputs i join columns 2 * i and 2 * i + 1, and the third.
  template <int kRows, Third kThird>
  void fold_row(int64_t n, Ahead& ahead, V* line) const {
    constexpr int64_t kStep = kLanes<V>;
    constexpr auto kAll = std::make_index_sequence<size_t(kStep)>{};
    const std::conditional_t<kThird == Third::none, Op, FarOf<Op>> op{this->op};
    const int64_t count = kRows ? kRows : rows_.count;
    const T* const* const rows = rows_.at;
    Ahead next = ahead;
    const auto pairs_at = [&](int64_t i) __attribute__((always_inline)) {
      const auto a = join_vectors<kRows>(op, rows, count, 2 * i);
      const auto b = join_vectors<kRows>(op, rows, count, 2 * i + kStep);
      next.fetch_near();
      return std::pair(pick<0, 2>(a, b, kAll), pick<1, 2>(a, b, kAll));
    };
    if constexpr (kThird == Third::after) {
      auto now = pairs_at(0);
      for (int64_t i = 0; i < n; i += kStep) {
        const auto then = i + kStep <= n ? pairs_at(i + kStep) : now;
        const auto third = pick<1, 1>(now.first, then.first, kAll);
        put(line, i, Op::join(Op::join(now.first, now.second), third));
        now = then;
      }
    } else {
      auto before = all_lanes(Op::none());
      for (int64_t i = 0; i < n; i += kStep) {
        const auto [even, odd] = pairs_at(i);
        auto v = Op::join(even, odd);
        if constexpr (kThird == Third::before) {
          v = Op::join(v, pick<kStep - 1, 1>(before, odd, kAll));
          before = odd;
        }
        put(line, i, v);
      }
    }
    ahead.at = next.at;
  }

  /// Values i and following of a line: outputs where they need no more than to be stored.
  void put(V* line, int64_t i, const Vector<V>& v) const {
    if constexpr (kStores)
      op.store(reinterpret_cast<T*>(line) + i, v);
    else
      store_vector(line + i, v);
  }

  /// The same by a line.
  void join_line(const StripColumns& c, V* line) {
    const PoolAxis& w = plan.axis[2];
    const ColumnShape s{w.window, w.stride, w.dilation, 1, c.n, 1, line_pitch(c.columns)};
    fill_line(c, 1, room_.line);
    join_columns<typename Op::Join>(room_.line, s, room_.spare, room_.spare, Ahead{});
    for (int64_t i = 0; i < c.n; i += kLanes<V>)
      put(line, i, load_vector<Vector<V>>(room_.spare + i));
  }

  /// Numbers the columns of as many whole rows as make vectors that are nearly all full.
  void number_columns() {
    const PoolAxis& w = plan.axis[2];
    const int64_t row = w.in * shape_.lanes;
    segment_ = lines_at_once<V>(row) * row;
    for (int64_t i = 0; i < segment_; ++i)
      room_.spare[i] = same_bits<V>(IntegerLike<V>(i % row / shape_.lanes - w.start));
  }

  /// Lines of windows of three columns, joined and finished in registers.
  [[gnu::noinline]] void join_neighbours(const Task& task, const StripLines& lines, T* to) {
    constexpr int64_t kAhead = 8192 / sizeof(T);
    const PoolAxis &h = plan.axis[1], &w = plan.axis[2];
    rows_.taps[0] = axis_taps(plan.axis[0], task.space(0));
    const Interior whole = interior_of(h, lines.first, lines.first + lines.rows);
    for (int64_t i = 0, n; i < lines.lines; i += n, to += n * w.in) {
      const int64_t o = lines.row(i);
      rows_.find(plan, x + task.x + lines.plane(i) * plan.x.batch[1], o);
      n = o >= whole.from && o < whole.to ? whole.to - o : 1;
      const auto last =
          finish.of_columns(plan.include_padding ? rows_.inside() : double(rows_.count));
      const T* const next = (rows_.count > 0 ? rows_.at[rows_.count - 1] : x) + kAhead;
      const auto put = [=, op = this->op, fetches = fetches_](int64_t at, int64_t column,
                                                              const Vector<V>& v) {
        op.store(to + at, last(v, column));
        if (fetches) __builtin_prefetch(next + at, 0, 2);
      };
      const LineTaps<Op> taps{rows_.at, rows_.count, n * w.in, w.in, segment_, room_.spare, end};
      if (rows_.count == 3)
        join_thirds<3>(op, taps, put);
      else if (rows_.count > 0)
        join_thirds<0>(op, taps, put);
      else
        for (int64_t j = 0; j < n * w.in; j += kLanes<V>) put(j, 0, all_lanes(Op::none()));
    }
  }

  [[gnu::noinline]] void join_planes(const Task& task, const StripLines& lines, ColumnShape s,
                                     V* joined, double* counts) {
    const PoolAxis &h = plan.axis[1], &w = plan.axis[2];
    constexpr int64_t kAlign = 64 / int64_t(sizeof(V));
    const int64_t row = w.in * s.lanes;
    V* const line = room_.line + (w.start * s.lanes + kAlign - 1) / kAlign * kAlign;
    Ahead ahead;
    rows_.taps[0] = axis_taps(plan.axis[0], task.space(0));
    const Interior whole = interior_of(h, lines.first, lines.first + lines.rows);
    for (int64_t i = 0, n; i < lines.lines; i += n) {
      const int64_t o = lines.row(i);
      rows_.find(plan, x + task.x + lines.plane(i) * plan.x.batch[1], o);
      n = o >= whole.from && o < whole.to ? whole.to - o : 1;
      std::fill_n(counts + i, n, plan.include_padding ? rows_.inside() : double(rows_.count));
      if (i == 0 && fetches_) ahead = ahead_of(plan, shape_, rows_, {}, s.fetches(kLanes<V>));
      if (rows_.count > 0)
        join_rows(op, rows_.at, rows_.count, 0, n * row, end, line + i * row);
      else
        fill_values(line + i * row, n * row, Op::none());
    }
    s.columns *= s.lines;
    s.lines = 1;
    const PackedLines<V> packed{room_.spare, segment_, w.start, w.in};
    if (s.window == 3)
      join_packed<3, typename Op::Join>(line, s, packed, Op::none(), joined, ahead);
    else
      join_packed<0, typename Op::Join>(line, s, packed, Op::none(), joined, ahead);
  }

  [[gnu::noinline]] void join_lines(const Task& task, const StripColumns& c,
                                    const StripLines& lines, const ColumnShape& s, V* joined,
                                    double* counts) {
    V* line = room_.line + skew_of(c, task.n);
    Ahead ahead;
    const T* plane = x + task.x;
    rows_.taps[0] = axis_taps(plan.axis[0], task.space(0));
    const Interior whole = interior_of(plan.axis[1], lines.first, lines.first + lines.rows);
    int64_t o = lines.first;
    for (int64_t i = 0; i < lines.lines; ++i, ++o, line += s.pitch) {
      rows_.follow(plan, lines, whole, o, plane);
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
  const bool joins_planes_, thirds_, turns_, lane_thirds_, folds_, fetches_;
  int64_t segment_ = 0;  // values whose columns are numbered in room_.spare
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
void pool_values(const PoolPlan& plan, Op op, Finish finish, const void* x, void* y) {
  using T = typename Op::Element;
  const T* const first = static_cast<const T*>(x);
  const ValuePool<Op, Finish> base{
      plan, op, finish, first, static_cast<T*>(y), end_of_x(plan, first)};
  if constexpr (ValuePool<Op, Finish>::kIsLarge)
    if (TapPool<Op, Finish>::suits(plan)) return pool_taps(base);
  const StripShape shape =
      value_shape<typename Op::V>(plan, Sink<T>::kPiece, StripPool<Op, Finish>::kLaneThirds);
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
