// Winners of windows for vectors of planes that lie side by side: the taps of a window one after
// the other, in visiting order, in registers.
#pragma once

#include "cpu/memory/line_stream.h"
#include "cpu/pool/strip_tasks.h"
#include "cpu/threads/arena.h"
#include "cpu/threads/parallel.h"
#include "cpu/winners/lanes.h"
#include "cpu/winners/shape.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

/// Results between two looks at whether the call is still wanted.
constexpr int64_t kUncut = 1 << 14;

/// The real taps of a window: elements from the first one in x, and what they add to its position.
template <class P>
struct TapList {
  int64_t columns = -1, count = 0;
  int64_t x[kMostLaneTaps];
  P place[kMostLaneTaps];

  /// Those of a box of `size` taps.
  void set(const PoolPlan& plan, const int64_t (&size)[3]) {
    columns = size[2];
    count = 0;
    const auto from = [&](const PoolStrides& s, int64_t a, int64_t b, int64_t c) {
      return a * plan.axis[0].dilation * s.space[0] + b * plan.axis[1].dilation * s.space[1] +
             c * plan.axis[2].dilation * s.space[2];
    };
    for (int64_t a = 0; a < size[0]; ++a)
      for (int64_t b = 0; b < size[1]; ++b)
        for (int64_t c = 0; c < size[2]; ++c, ++count) {
          x[count] = from(plan.x, a, b, c);
          place[count] = P(from(plan.flat, a, b, c));
        }
  }
};

/// The winners so far, for a vector of planes.
template <class Op>
struct LaneWinner {
  using T = typename Op::Element;
  using V = typename Op::V;
  using P = Position<V>;
  Vector<V> best;
  Vector<P> place;

  LaneWinner(const Op& op, const T* p, P at) : best(op.load(p)), place(all_lanes(at)) {}
  void join(const Op&, const LaneWinner& later) { offer<V>(best, place, later.best, later.place); }
  void store(const Op& op, T* p) const { op.store(p, best); }
};

/// Bits of 16-bit floats, of which there are twice as many lanes as of floats.
struct HalfLanes {
  using Element = int16_t;
  using V = int16_t;
  V infinity;

  /// Zeros have one key, and NaNs have one, the largest.
  Vector<V> keys_of(const Vector<V>& bits) const {
    constexpr V kMost = std::numeric_limits<V>::max();
    const auto magnitude = bits & kMost;
    const Vector<V> keys = bits < 0 ? -magnitude : bits;
    return magnitude > infinity ? all_lanes(kMost) : keys;
  }
};

template <>
struct LaneWinner<HalfLanes> {
  using V = int16_t;
  Vector<V> best, key, place;

  LaneWinner(const HalfLanes& op, const V* p, V at)
      : best(load_vector<Vector<V>>(p)), key(op.keys_of(best)), place(all_lanes(at)) {}
  void join(const HalfLanes&, const LaneWinner& later) {
    const auto wins = later.key > key;
    best = wins ? later.best : best;
    key = wins ? later.key : key;
    place = wins ? later.place : place;
  }
  void store(const HalfLanes&, V* p) const { store_vector(p, best); }
};

/// The value of a window without taps.
template <class Op>
typename Op::Element none_of(const Op& op) {
  typename Op::Element room[kLanes<typename Op::V>];
  op.store(room, all_lanes(Op::none()));
  return room[0];
}
inline int16_t none_of(const HalfLanes& op) {
  return int16_t(~std::numeric_limits<int16_t>::max() | op.infinity);
}

/// Windows that follow each other along a row, of which all see as many taps: where their first
/// taps and their results stand for the first of `lanes` planes, and the position of that tap.
template <class T, class Index>
struct TapWindows {
  const T* x;
  T* y;  // null where only indices are wanted
  Index *indices, position;
  int64_t n, lanes, x_step, y_step, index_step;  // elements from one window to the next
  Index turn;                                    // positions from one to the next
  int64_t rows, columns;  // of x that the windows below are the first to see, of each of these
  int64_t below = 0, row, column;  // elements to the first of them, and between; 0: none is fetched
};

/// What the windows below take of a vector of planes.
template <class T, class Index>
[[gnu::always_inline]] inline void fetch_below(const TapWindows<T, Index>& w, const T* x) {
  for (int64_t r = 0; r < w.rows; ++r)
    for (int64_t c = 0; c < w.columns; ++c)
      __builtin_prefetch(x + w.below + r * w.row + c * w.column, 0, 3);
}

/// Positions of planes from the first one's, for as many as a vector of values holds.
template <class V, class Index>
struct LaneRamp {
  Index step;
  alignas(64) Index at[kLanes<V>];
  explicit LaneRamp(Index s) : step(s) {
    for (int64_t i = 0; i < kLanes<V>; ++i) at[i] = Index(i) * s;
  }
};

/// Lanes of P as lanes of Index, by single steps of size: others GCC takes lane by lane.
template <class Index, int kCount, class Part>
Vector<Index, kCount* int(sizeof(Index))> as_indices(const Part& part) {
  if constexpr (sizeof(Index) == 4 * sizeof(part[0])) {
    using Between = Vector<int32_t, kCount * 4>;
    return __builtin_convertvector(__builtin_convertvector(part, Between),
                                   Vector<Index, kCount* int(sizeof(Index))>);
  } else {
    return __builtin_convertvector(part, Vector<Index, kCount* int(sizeof(Index))>);
  }
}

template <class V, class Index>
[[gnu::always_inline]] inline void store_indices(Index* to, const Vector<Position<V>>& place,
                                                 Index base, const LaneRamp<V, Index>& ramp) {
  using P = Position<V>;
  constexpr int kCount = int(std::min(kLanes<P>, kLanes<Index>));
  P room[kLanes<P>];
  store_vector(room, place);
  for (int64_t i = 0; i < kLanes<P>; i += kCount) {
    using Indices = Vector<Index, kCount* int(sizeof(Index))>;
    const auto part = load_vector<Vector<P, kCount* int(sizeof(P))>>(room + i);
    store_vector(to + i,
                 as_indices<Index, kCount>(part) + load_vector<Indices>(ramp.at + i) + base);
  }
}

/// The last vector of lanes may overlap the one before. kTaps is the number of taps, or 0 for any;
/// some are joined by themselves first: none waits for another.
template <int kTaps, class Op, class Index>
[[gnu::noinline]] void find_winners(const Op& op, const TapList<Position<typename Op::V>>& taps,
                                    const TapWindows<typename Op::Element, Index>& windows,
                                    const LaneRamp<typename Op::V, Index>& ramp) {
  using V = typename Op::V;
  constexpr int64_t kRow = 3;
  TapWindows w = windows;
  const int64_t count = kTaps ? kTaps : taps.count;
  for (int64_t c = 0; c < w.n; ++c) {
    for (int64_t i = 0; i < w.lanes; i += kLanes<V>) {
      i = std::min(i, w.lanes - kLanes<V>);
      const auto* const x = w.x + i;
      if (w.below != 0) fetch_below(w, x);
      const auto tap = [&](int64_t t) { return LaneWinner<Op>(op, x + taps.x[t], taps.place[t]); };
      const auto row = [&](int64_t t, int64_t end) __attribute__((always_inline)) {
        auto found = tap(t);
#pragma GCC unroll 2
        for (int64_t k = t + 1; k < end; ++k) found.join(op, tap(k));
        return found;
      };
      auto found = row(0, std::min(count, kRow));
#pragma GCC unroll 2
      for (int64_t t = kRow; t < count; t += kRow)
        found.join(op, row(t, std::min(count, t + kRow)));
      if (w.y) found.store(op, w.y + i);
      store_indices<V>(w.indices + i, found.place, Index(w.position + Index(i) * ramp.step), ramp);
    }
    w.x += w.x_step;
    if (w.y) w.y += w.y_step;
    w.indices += w.index_step;
    w.position += w.turn;
  }
}

/// Results of windows of neighbouring planes: straight to their places, or past the caches by way
/// of a room.
template <class E>
class LaneSink {
 public:
  LaneSink(E* out, int64_t step, int64_t outputs)
      : out_(out), step_(step), is_streamed_(is_streamed(outputs * int64_t(sizeof(E)))) {}

  /// Where results go that stand `at` elements from the first one on, and elements from those of
  /// one window to the next.
  E* begin(int64_t at, int64_t lanes, int64_t& step) {
    step = is_gathered() ? lanes : step_;
    return is_gathered() ? room_ : out_ ? out_ + at : nullptr;
  }
  void end(int64_t at, int64_t windows, int64_t lanes) {
    if (!is_gathered()) return;
    const int64_t run = lanes == step_ ? windows : 1;
    for (int64_t i = 0; i < windows; i += run) {
      stream_.seek(out_ + at + i * step_);
      stream_.copy(room_ + i * lanes, run * lanes * int64_t(sizeof(E)));
    }
  }

  /// Whether results go by way of a room, which takes kLaneRoom of them.
  bool is_gathered() const { return is_streamed_ && out_; }

 private:
  E* const out_;
  const int64_t step_;
  const bool is_streamed_;
  LineStream stream_;
  alignas(64) E room_[kLaneRoom];
};

template <class Op, class Index>
class LaneTapWinners {
  using T = typename Op::Element;
  using V = typename Op::V;
  using P = Position<V>;

 public:
  LaneTapWinners(const PoolPlan& plan, const Op& op, const T* x, T* y, void* indices)
      : plan_(plan),
        op_(op),
        x_(x),
        y_(y),
        indices_(static_cast<Index*>(indices)),
        fetches_(is_copy_streamed(input_bytes(plan))) {}

  void run() const {
    TaskSpace space = make_tasks(plan_, Lane::batch, LaneTapShape(plan_).lanes);
    space.dim[kSpaceDim + 2] = {};
    parallel_for(space.count(), work_bytes(plan_), [&](int64_t begin, int64_t end) {
      const Room<Results> results(*this);
      for_tasks(space, begin, end, [&](const Task& task, int64_t) { row(task, *results); });
    });
  }

 private:
  /// Where a thread's results go.
  struct Results {
    LaneSink<T> values;
    LaneSink<Index> indices;
    LaneRamp<V, Index> ramp;
    TapList<P> taps;

    explicit Results(const LaneTapWinners& w)
        : values(w.y_, w.plan_.y.space[2], w.plan_.outputs()),
          indices(w.indices_, w.plan_.indices.space[2], w.plan_.outputs()),
          ramp(Index(w.plan_.flat.batch[1])) {}
  };

  void row(const Task& task, Results& to) const {
    const PoolAxis& w = plan_.axis[2];
    const AxisTaps a = axis_taps(plan_.axis[0], task.space(0));
    const AxisTaps b = axis_taps(plan_.axis[1], task.space(1));
    const Interior whole = interior_of(w, 0, w.out);
    const int64_t room = to.values.is_gathered() || to.indices.is_gathered() ? kLaneRoom : kUncut;
    const int64_t most = std::max<int64_t>(1, room / task.n);
    to.taps.columns = -1;
    for (int64_t o = 0, n; o < w.out; o += n) {
      const AxisTaps c = axis_taps(w, o);
      n = o >= whole.from && o < whole.to ? std::min(whole.to - o, most) : 1;
      if (to.taps.columns != c.count) to.taps.set(plan_, {a.count, b.count, c.count});
      const auto from = [&](const PoolStrides& s) {
        return a.begin * s.space[0] + b.begin * s.space[1] + c.begin * s.space[2];
      };
      TapWindows<T, Index> windows;
      windows.x = x_ + task.x + from(plan_.x);
      windows.position = Index(task.flat + from(plan_.flat));
      windows.n = n;
      windows.lanes = task.n;
      windows.x_step = w.stride * plan_.x.space[2];
      windows.turn = Index(w.stride * plan_.flat.space[2]);
      if (fetches_) set_below(windows);
      const int64_t y = task.y + o * plan_.y.space[2];
      const int64_t indices = task.indices + o * plan_.indices.space[2];
      windows.y = to.values.begin(y, task.n, windows.y_step);
      windows.indices = to.indices.begin(indices, task.n, windows.index_step);
      find(windows, to);
      to.values.end(y, n, task.n);
      to.indices.end(indices, n, task.n);
      checkpoint_for(n * task.n * to.taps.count);
    }
  }

  void set_below(TapWindows<T, Index>& windows) const {
    const PoolAxis &h = plan_.axis[1], &w = plan_.axis[2];
    windows.rows = std::min(h.stride, h.window);
    windows.columns = std::min(w.stride, w.window);
    windows.row = h.dilation * plan_.x.space[1];
    windows.column = w.dilation * plan_.x.space[2];
    windows.below = h.stride * plan_.x.space[1] + (h.window - windows.rows) * windows.row;
  }

  void find(const TapWindows<T, Index>& windows, const Results& to) const {
    if (to.taps.count == 0) return put_none(windows);
    if (to.taps.count == 9) return find_winners<9>(op_, to.taps, windows, to.ramp);
    find_winners<0>(op_, to.taps, windows, to.ramp);
  }

  /// D-MAX-4: no window of these has a tap.
  void put_none(const TapWindows<T, Index>& w) const {
    for (int64_t i = 0; i < w.n; ++i) {
      if (w.y) std::fill_n(w.y + i * w.y_step, w.lanes, none_of(op_));
      std::fill_n(w.indices + i * w.index_step, w.lanes, Index(-1));
    }
  }

  const PoolPlan& plan_;
  const Op op_;
  const T* const x_;
  T* const y_;
  Index* const indices_;
  const bool fetches_;
};

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
