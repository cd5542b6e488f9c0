// Pooling without indices by strips.
#pragma once

#include "cpu/pool/folds.h"
#include "cpu/pool/plane_thirds.h"
#include "cpu/pool/short_rows.h"
#include "cpu/pool/strip_shape.h"
#include "cpu/pool/value_pool.h"
#include "cpu/threads/arena.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

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
        fourths_(kFourths && has_fourths(plan, shape)),
        folds_(kFolds && (fourths_ || folds_pairs(plan, shape))),
        fetches_(is_streamed(input_bytes(plan)) &&
                 !(joins_planes_ && !thirds_ && has_short_rows())),
        sink_(y, plan.y, plan, shape, streamed) {
    if (joins_planes_) number_columns();
    std::fill_n(counts_, kMostLines, -1.0);
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
      done = kFinishes;
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
  static constexpr bool kFinishes = kStores || Base::kIsLarge;
  static constexpr bool kDirect = kStores && std::is_floating_point_v<T>;
  static constexpr bool kTurns = kStores && Base::kIsUsual && kTurnsVectors<V>;
  static constexpr bool kFourths = Base::kIsLarge && sizeof(T) > 1;
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

  /// Pairs or fourths of columns, in registers: of lines that see whole windows, all at once.
  [[gnu::noinline]] void fold_lines(const Task& task, const StripColumns& c,
                                    const StripLines& lines, V* joined, T* to, double* counts) {
    const PoolAxis &h = plan.axis[1], &w = plan.axis[2];
    Ahead ahead;
    rows_.taps[0] = axis_taps(plan.axis[0], task.space(0));
    const Interior whole = interior_of(h, lines.first, lines.first + lines.rows);
    const bool late = w.window == 3 && w.start == 0;
    const int64_t vectors = (c.n + kLanes<V> - 1) / kLanes<V>;
    const int64_t reach = fourths_ ? c.begin + (vectors + 1) * 4 * kLanes<V>
                                   : (c.n + late + kLanes<V> - 1) / kLanes<V> * 2 * kLanes<V>;
    const bool padded = fourths_ && c.high - c.low < c.columns;
    const int64_t step = h.stride * plan.x.space[1];
    for (int64_t i = 0, n; i < lines.lines; i += n, joined += n * c.n, to += n * c.n) {
      const int64_t o = lines.row(i);
      rows_.find(plan, x + task.x + lines.plane(i) * plan.x.batch[1], o);
      const double counted = plan.include_padding ? rows_.inside() : double(rows_.count);
      if (i == 0 && fetches_)
        ahead = fourths_ ? ahead_of(plan, shape_, rows_, c, lines.lines * vectors)
                         : near_ahead(plan, rows_, vectors);
      n = o >= whole.from && o < whole.to ? whole.to - o : 1;
      const int64_t left =
          rows_.count > 0 && !padded ? end - rows_.at[rows_.count - 1] - reach : -1;
      if (left < (n - 1) * step) n = left < 0 ? 1 : left / step + 1;
      if constexpr (!kStores) std::fill_n(counts + i, n, counted);
      const auto put = [=, op = this->op, first = c.first, last = finish.of_columns(counted)](
                           int64_t at, int64_t column, const Vector<V>& v) {
        if constexpr (kFinishes)
          op.store(to + at, last(v, first + column));
        else
          store_vector(joined + at, v);
      };
      const PairLines<T> t{rows_.at, rows_.count, step, c.n, n};
      if (left < 0)
        put_line(c, put);
      else
        fold(c, t, ahead, put);
    }
  }

  template <class Put>
  void fold(const StripColumns& c, const PairLines<T>& t, Ahead& ahead, const Put& put) const {
    const PoolAxis& w = plan.axis[2];
    if constexpr (kFourths)
      if (fourths_) return fold_fourths(t, c.begin, ahead, put);
    if (w.window == 2) return fold_rows<Third::none>(t, ahead, put);
    if (w.start == 0) return fold_rows<Third::after>(t, ahead, put);
    fold_rows<Third::before>(t, ahead, put);
  }

  template <Third kThird, class Put>
  void fold_rows(const PairLines<T>& t, Ahead& ahead, const Put& put) const {
    constexpr int kUsual = kThird == Third::none ? 2 : 3;
    // Pairs of long rows arrive from memory a tenth faster where a loop reads them.
    const bool loops = kThird == Third::none && fetches_ && t.n > 2 * kLanes<V>;
    if (t.count == kUsual && !loops) return fold_row<kUsual, kThird>(t, ahead, put);
    fold_row<0, kThird>(t, ahead, put);
  }

  template <int kRows, Third kThird, class Put>
  [[gnu::noinline]] void fold_row(const PairLines<T>& t, Ahead& ahead, const Put& put) const {
    join_pairs<kRows, kThird>(op, t, ahead, put);
  }

  template <class Put>
  [[gnu::noinline]] void fold_fourths(const PairLines<T>& t, int64_t from, Ahead& ahead,
                                      const Put& put) const {
    join_fourths(op, t, from, plan.axis[2].window == 5, ahead, put);
  }

  template <class Put>
  void put_line(const StripColumns& c, const Put& put) {
    join_line(c);
    for (int64_t j = 0; j < c.n; j += kLanes<V>) put(j, j, load_vector<Vector<V>>(room_.spare + j));
  }

  /// Joined values of a line into room_.spare.
  [[gnu::noinline]] void join_line(const StripColumns& c) {
    const PoolAxis& w = plan.axis[2];
    const ColumnShape s{w.window, w.stride, w.dilation, 1, c.n, 1, line_pitch(c.columns)};
    fill_line(c, 1, room_.line);
    join_columns<typename Op::Join>(room_.line, s, room_.spare, room_.spare, Ahead{});
  }

  /// Numbers the columns of the rows of a strip, or of as many as make vectors that are nearly all
  /// full.
  void number_columns() {
    const PoolAxis& w = plan.axis[2];
    const int64_t row = w.in * shape_.lanes, rows = thirds_ ? shape_.rows : lines_at_once<V>(row);
    segment_ = rows * row;
    V* const to = room_.spare;
    for (int64_t i = 0; i < w.in; ++i)
      std::fill_n(to + i * shape_.lanes, shape_.lanes, same_bits<V>(IntegerLike<V>(i - w.start)));
    for (int64_t i = row; i < segment_; i += row) copy_bytes(to + i, to, row * int64_t(sizeof(V)));
  }

  /// Planes of windows of three columns, joined and finished in registers.
  [[gnu::noinline]] void join_neighbours(const Task& task, const StripLines& lines, T* to) {
    constexpr int64_t kAhead = 8192 / sizeof(T);
    const PoolAxis &h = plan.axis[1], &w = plan.axis[2];
    rows_.taps[0] = axis_taps(plan.axis[0], task.space(0));
    write_divisors(task, lines);
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
  void write_divisors(const Task& task, const StripLines& lines) {
    if (kStores || (divided_[0] == task.space(0) && divided_[1] == lines.first)) return;
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
  [[gnu::noinline]] void fill_line(const StripColumns& c, int64_t lanes, V* begin) {
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
  const bool joins_planes_, thirds_, turns_, lane_thirds_, fourths_, folds_, fetches_;
  int64_t segment_ = 0;  // values whose columns are numbered in room_.spare
  // Of the lines whose divisors stand in room_.line: what they count, where they are.
  double counts_[kMostLines];
  int64_t divided_[2] = {-1, -1};
  StripRows<T> rows_;
  StripSink<T> sink_;
  StripRoom<V> room_;
};

template <class Op, class Finish>
void pool_strips(const ValuePool<Op, Finish>& base, const StripShape& shape) {
  const TaskSpace space = strip_tasks(base.plan, shape);
  const bool streamed = is_streamed(base.plan.outputs() * int64_t(sizeof(*base.y)));
  parallel_for(space.count(), work_bytes(base.plan), [&](int64_t begin, int64_t end) {
    const Room<StripPool<Op, Finish>> strips(base, shape, streamed);
    for_tasks(space, begin, end, [&](const Task& task, int64_t) { (*strips)(task); });
  });
}

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
