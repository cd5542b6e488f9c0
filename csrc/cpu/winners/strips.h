// Max pooling with indices by strips: every value is joined together with its position, rows first,
// then columns.
#pragma once

#include <optional>

#include "cpu/pool/strip_tasks.h"
#include "cpu/threads/arena.h"
#include "cpu/winners/folds.h"
#include "cpu/winners/plain_folds.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

/// Indices of strips, which go out as int64 or as uint32: positions that have found their plane.
template <class P>
class StripIndices {
 public:
  StripIndices(void* indices, const PoolPlan& plan, const StripShape& shape) : plan_(plan) {
    const bool streamed = is_streamed(plan.outputs() * int64_t(size_of(plan.index_dtype)));
    if (plan.index_dtype == Dtype::uint32)
      narrow_.emplace(static_cast<uint32_t*>(indices), plan.indices, plan, shape, streamed);
    else
      wide_.emplace(static_cast<int64_t*>(indices), plan.indices, plan, shape, streamed);
  }

  /// Begins with those of n columns in each of the lines. Where they are uint32 they may be put
  /// there as they are, with slack of a sink behind; else null.
  uint32_t* begin(const Task& task, const StripLines& lines, int64_t n) {
    if (wide_) to_wide_ = wide_->room(task.indices, lines, n, task.n);
    if (narrow_) to_narrow_ = narrow_->room(task.indices, lines, n, task.n);
    return to_narrow_;
  }
  void write(const Task& task, const StripLines& lines, int64_t n, const P* place) {
    wide_ ? put(to_wide_, task, lines, n, place) : put(to_narrow_, task, lines, n, place);
  }
  void end(const Task& task, const StripLines& lines, int64_t n) {
    wide_ ? wide_->put(task.indices, lines, n, task.n)
          : narrow_->put(task.indices, lines, n, task.n);
  }

 private:
  static constexpr P kNone = std::numeric_limits<P>::max();

  template <class Index>
  void put(Index* to, const Task& task, const StripLines& lines, int64_t n, const P* place) {
    const int64_t line = n * task.n, plane = lines.rows * line;  // outputs of one plane
    for (int64_t first = 0; first < lines.lines * line; first += plane) {
      const Index base = Index(task.flat + first / plane * plan_.flat.batch[1]);
      if (task.n == 1)
        number(place + first, plane, base, to + first);
      else
        number_lanes(place + first, plane, task.n, base, to + first);
    }
  }

  template <class Index>
  static void number(const P* place, int64_t n, Index base, Index* to) {
    constexpr int64_t kBlock = 16;
    for (int64_t i = 0; i < n; i += kBlock)
      for (int64_t j = i; j < i + kBlock; ++j)
        to[j] = place[j] == kNone ? Index(-1) : Index(base + Index(place[j]));
  }

  template <class Index>
  void number_lanes(const P* place, int64_t n, int64_t lanes, Index base, Index* to) const {
    const Index step = Index(plan_.flat.batch[1]);
    for (int64_t j = 0; j < n; j += lanes)
      for (int64_t c = 0; c < lanes; ++c)
        to[j + c] =
            place[j + c] == kNone ? Index(-1) : Index(base + Index(c) * step + Index(place[j + c]));
  }

  const PoolPlan& plan_;
  std::optional<StripSink<int64_t>> wide_;
  std::optional<StripSink<uint32_t>> narrow_;
  int64_t* to_wide_ = nullptr;
  uint32_t* to_narrow_ = nullptr;
};

/// Values and indices of strips.
template <class Op>
class StripWinners {
  using T = typename Op::Element;
  using V = typename Op::V;
  using P = Position<V>;

 public:
  StripWinners(const PoolPlan& plan, const Op& op, const StripShape& shape, const T* x, T* y,
               void* indices)
      : plan_(plan),
        op_(op),
        shape_(shape),
        x_(x),
        end_(end_of_x(plan, x)),
        values_(y, plan.y, plan, shape, is_streamed(plan.outputs() * int64_t(sizeof(T)))),
        indices_(indices, plan, shape),
        writes_values_(y != nullptr),
        folds_(kFolds && folds_pairs(plan, shape) && most_taps(plan, 2) <= FoldedRows<T, P>::kMost),
        folds_plain_(kFoldsPlain && folds_ && fits_plain<T>(plan)),
        fetches_(is_streamed(input_bytes(plan))) {}

  void operator()(const Task& task) {
    const StripColumns c = columns_of(plan_.axis[2], shape_, task);
    const StripLines lines(plan_, shape_, task);
    T* to = reinterpret_cast<T*>(value_.line);
    if (writes_values_) to = values_.room(task.y, lines, c.n, task.n);
    uint32_t* const places = indices_.begin(task, lines, c.n);
    const bool done = fold_plain(task, c, lines, to, places);
    if (!done) {
      if (folds_)
        fold_lines(task, c, lines);
      else
        join_lines(task, c, lines);
      if (writes_values_) write_values(task, lines, c.n, to);
    }
    if (writes_values_) values_.put(task.y, lines, c.n, task.n);
    if (!done || !places) indices_.write(task, lines, c.n, place_.out);
    indices_.end(task, lines, c.n);
  }

 private:
  static constexpr bool kFolds = sizeof(T) <= 4 && kIsFloat<T>;
#if defined(__AVX__)
  static constexpr bool kFoldsPlain = kFolds;
#else
  static constexpr bool kFoldsPlain = std::is_same_v<T, float>;
#endif

  /// Lines of pairs of columns straight to where they go, if there is nothing among them that this
  /// cannot do; after such strips some are not tried. Lines that see whole windows go all at once.
  /// Indices go to `places`, or positions to place_.out.
  [[gnu::noinline]] bool fold_plain(const Task& task, const StripColumns& c,
                                    const StripLines& lines, T* to, uint32_t* places) {
    if constexpr (kFoldsPlain) {
      if (!folds_plain_ || --untried_ > 0) return false;
      using Lanes = std::conditional_t<kIsHalf<T>, PlainHalves, PlainFloats>;
      using E = typename Lanes::Element;
      constexpr int64_t kStep = kLanes<typename Lanes::V>;
      const PoolAxis &h = plan_.axis[1], &w = plan_.axis[2];
      const PoolStrides& flat = plan_.flat;
      rows_.taps[0] = axis_taps(plan_.axis[0], task.space(0));
      const int64_t vectors = (c.n + kStep - 1) / kStep, base = w.window == 3 ? 1 - w.start : 0;
      const int64_t next = h.stride * plan_.x.space[1], turn = h.stride * flat.space[1];
      Ahead ahead;
      Lanes lanes;
      if constexpr (kIsHalf<T>) lanes.infinity = std::is_same_v<T, Float16> ? 0x7c00 : 0x7f80;
      const Interior whole = interior_of(h, lines.first, lines.first + lines.rows);
      const bool counts_all = places != nullptr;
      if (!counts_all) places = reinterpret_cast<uint32_t*>(place_.out);
      for (int64_t i = 0, n; i < lines.lines; i += n, to += n * c.n, places += n * c.n) {
        const int64_t o = lines.row(i), plane = lines.plane(i);
        rows_.find(plan_, x_ + task.x + plane * plan_.x.batch[1], o);
        n = o >= whole.from && o < whole.to ? whole.to - o : 1;
        if (i == 0 && fetches_) ahead = near_ahead(plan_, rows_, vectors);
        const int64_t reach = base + 2 * vectors * kStep + (n - 1) * next;
        if (rows_.count == 0 || end_ - rows_.at[rows_.count - 1] < reach) return false;
        int64_t first = rows_.taps[0].begin * flat.space[0] + rows_.taps[1].begin * flat.space[1];
        if (counts_all) first += task.flat + plane * flat.batch[1];
        PlainRows<E> rows{
            {}, rows_.count, h.dilation * flat.space[1], flat.space[2], first, c.n, n, next, turn};
        for (int64_t r = 0; r < rows_.count; ++r)
          rows.at[r] = reinterpret_cast<const E*>(rows_.at[r]);
        fold_plain_rows(rows, w.window, base, lanes, reinterpret_cast<E*>(to), places, ahead);
      }
      const bool plain = lanes.are_plain();
      untried_ = plain ? 0 : 16;
      return plain;
    }
    return false;
  }

  [[gnu::noinline]] void join_lines(const Task& task, const StripColumns& c,
                                    const StripLines& lines) {
    const PoolAxis& w = plan_.axis[2];
    const int64_t line = c.n * task.n, pitch = line_pitch(c.columns * task.n);
    Ahead ahead;
    rows_.taps[0] = axis_taps(plan_.axis[0], task.space(0));
    for (int64_t i = 0; i < lines.lines; ++i) {
      rows_.find(plan_, x_ + task.x + lines.plane(i) * plan_.x.batch[1], lines.row(i));
      if (i == 0 && fetches_)
        ahead = ahead_of(plan_, shape_, rows_, c, lines.lines * vectors_of(line));
      fill_line(c, task.n, {value_.line + i * pitch, place_.line + i * pitch});
    }
    const ColumnShape s{w.window, w.stride, w.dilation, task.n, c.n, 1, pitch};
    for (int64_t i = 0; i < lines.lines; ++i)
      join_winners<V>({value_.line + i * pitch, place_.line + i * pitch}, s,
                      {value_.out + i * line, place_.out + i * line}, ahead);
  }

  /// Lines of pairs of columns, rows and columns joined in registers.
  [[gnu::noinline]] void fold_lines(const Task& task, const StripColumns& c,
                                    const StripLines& lines) {
    const PoolAxis& w = plan_.axis[2];
    rows_.taps[0] = axis_taps(plan_.axis[0], task.space(0));
    const int64_t base = w.window == 3 ? 1 - w.start : 0;
    const int64_t reach = base + vectors_of(c.n) * 2 * kLanes<V>;
    Ahead ahead;
    const Interior whole = interior_of(plan_.axis[1], lines.first, lines.first + lines.rows);
    const T* plane = x_ + task.x;
    for (int64_t i = 0, o = lines.first; i < lines.lines; ++i, ++o) {
      const WinnerLine<V> out{value_.out + i * c.n, place_.out + i * c.n};
      rows_.follow(plan_, lines, whole, o, plane);
      if (i == 0 && fetches_) ahead = near_ahead(plan_, rows_, vectors_of(c.n));
      if (rows_.count == 0 || end_ - rows_.at[rows_.count - 1] < reach) {
        fill_line(c, 1, {value_.line, place_.line});
        const ColumnShape s{w.window, w.stride, w.dilation, 1, c.n, 1, line_pitch(c.columns)};
        Ahead none;
        join_winners<V>({value_.line, place_.line}, s, out, none);
      } else if constexpr (kFolds) {
        number_rows(rows_);
        const P step = P(plan_.flat.space[2]);
        const FoldedRows<T, P> rows{rows_.at, row_place_, rows_.count, step};
        if (w.window == 3)
          fold_winners<true>(op_, rows, base, c.n, out, ahead);
        else
          fold_winners<false>(op_, rows, base, c.n, out, ahead);
      }
    }
  }

  static int64_t vectors_of(int64_t n) { return (n + kLanes<V> - 1) / kLanes<V>; }

  void fill_line(const StripColumns& c, int64_t lanes, WinnerLine<V> line) {
    if (rows_.count == 0 || c.low >= c.high) return fill_none(line, c.columns * lanes);
    const int64_t left = (c.low - c.begin) * lanes, right = (c.begin + c.columns - c.high) * lanes;
    fill_none(line, left);
    line.value += left;
    line.place += left;
    number_rows(rows_);
    const int64_t pitch = plan_.x.space[2];
    const int64_t n = pitch == lanes ? (c.high - c.low) * lanes : lanes;
    for (int64_t i = c.low; i < c.high; i += n / lanes) {
      join_rows(rows_, i * pitch, n, lanes, i, line);
      line.value += n;
      line.place += n;
    }
    fill_none(line, right);
  }

  static void fill_none(WinnerLine<V> line, int64_t n) {
    fill_values(line.value, n, Op::none());
    fill_values(line.place, n, kNowhere<V>);
  }

  /// Positions of the rows' first columns.
  void number_rows(const StripRows<T>& rows) {
    const int64_t outer = plan_.axis[0].dilation * plan_.flat.space[0];
    const int64_t inner = plan_.axis[1].dilation * plan_.flat.space[1];
    const int64_t first =
        rows.taps[0].begin * plan_.flat.space[0] + rows.taps[1].begin * plan_.flat.space[1];
    int64_t r = 0;
    for (int64_t a = 0; a < rows.taps[0].count; ++a)
      for (int64_t b = 0; b < rows.taps[1].count; ++b)
        row_place_[r++] = P(first + a * outer + b * inner);
  }

  /// Elements [at, at + n) of the rows; the first of them is a lane of column `column`.
  void join_rows(const StripRows<T>& rows, int64_t at, int64_t n, int64_t lanes, int64_t column,
                 WinnerLine<V> to) {
    const P step = P(plan_.flat.space[2]), first = P(column * plan_.flat.space[2]);
    for (int64_t i = 0; i < n; i += kLanes<V>) {
      auto best = load_at(rows.at[0] + at + i, n - i);
      auto place = all_lanes(row_place_[0]);
      for (int64_t r = 1; r < rows.count; ++r)
        offer<V>(best, place, load_at(rows.at[r] + at + i, n - i), all_lanes(row_place_[r]));
      store_vector(to.value + i, best);
      store_vector(to.place + i, place + first);
    }
    if (n > lanes || lanes == 1) add_columns(to.place, n, lanes, step);
  }

  /// Adds what each column is from the first one.
  static void add_columns(P* place, int64_t n, int64_t lanes, P step) {
    if (lanes > 1) {
      for (int64_t j = 1; j * lanes < n; ++j)
        for (int64_t c = 0; c < lanes; ++c) place[j * lanes + c] += P(j) * step;
      return;
    }
    for (int64_t i = 0; i < n; ++i) place[i] += P(i) * step;
  }

  Vector<V> load_at(const T* p, int64_t n) const {
    if (end_ - p >= kLanes<V>) return op_.load(p);
    T room[kLanes<V>] = {};
    std::memcpy(room, p, size_t(std::min(n, kLanes<V>)) * sizeof(T));
    return op_.load(room);
  }

  void write_values(const Task& task, const StripLines& lines, int64_t n, T* to) {
    const int64_t values = lines.lines * n * task.n;
    Vector<P> nans{};
    for (int64_t i = 0; i < values; i += kLanes<V>) {
      const auto v = load_vector<Vector<V>>(value_.out + i);
      op_.store(to + i, v);
      if constexpr (std::is_same_v<T, Float16>) nans |= v != v;
    }
    if constexpr (std::is_same_v<T, Float16>)
      if (any_bits(nans)) keep_nans(task, lines, n * task.n, to);
  }

  /// The processor's conversion makes signalling NaNs quiet: NaNs are copied.
  [[gnu::noinline]] void keep_nans(const Task& task, const StripLines& lines, int64_t line,
                                   T* to) const {
    for (int64_t i = 0; i < lines.lines * line; ++i) {
      if (value_.out[i] == value_.out[i]) continue;
      int64_t place = place_.out[i];
      int64_t at = task.x + lines.plane(i / line) * plan_.x.batch[1] + i % line % task.n;
      for (int d = 0; d < 3; ++d) {
        const int64_t step = plan_.flat.space[d];
        if (step == 0) continue;
        at += place / step * plan_.x.space[d];
        place %= step;
      }
      to[i] = x_[at];
    }
  }

  const PoolPlan& plan_;
  const Op op_;
  const StripShape shape_;
  const T *x_, *end_;
  StripSink<T> values_;
  StripIndices<P> indices_;
  const bool writes_values_, folds_, folds_plain_, fetches_;
  int64_t untried_ = 0;  // strips
  StripRows<T> rows_;
  P row_place_[kChain];
  StripRoom<V> value_;
  StripRoom<P> place_;
};

/// The shape of strips that find winners, if the plan fits: positions must fit their lanes.
template <class Op>
StripShape winner_shape(const PoolPlan& p) {
  using V = typename Op::V;
  int64_t last = 0;
  for (int i = 0; i < 3; ++i) last += (p.axis[i].in - 1) * p.flat.space[i];
  const bool packed = has_packed_planes(p) || p.x.space[2] == 1;
  if (!packed || last >= kNowhere<V>) return {};
  return strip_shape(p, kLineBytes / int64_t(sizeof(V)), Sink<int64_t>::kPiece);
}

template <class Op>
void winners_of_strips(const PoolPlan& plan, const Op& op, const StripShape& shape, const void* x,
                       void* y, void* indices) {
  using T = typename Op::Element;
  const TaskSpace space = strip_tasks(plan, shape);
  parallel_for(space.count(), work_bytes(plan), [&](int64_t begin, int64_t end) {
    const Room<StripWinners<Op>> strips(plan, op, shape, static_cast<const T*>(x),
                                        static_cast<T*>(y), indices);
    for_tasks(space, begin, end, [&](const Task& task, int64_t) { (*strips)(task); });
  });
}

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
