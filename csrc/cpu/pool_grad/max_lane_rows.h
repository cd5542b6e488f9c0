// Gradient of max pooling by 3 x 3 windows that advance by 2, for planes side by side: a row of
// windows after the other, a vector of planes at a time.
#pragma once

#include <cstdlib>
#include <memory>

#include "cpu/memory/tuning.h"
#include "cpu/pool_grad/lane_output.h"
#include "cpu/pool_grad/max_rows.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

/// A vector of planes at one window of a row: the largest keys of the row of x that it shares with
/// the window below and the numbers of their taps, and the winners here and of the window above.
template <class K>
struct LanePlace {
  using Taps = Vector<IntegerLike<K>>;
  Vector<K> best;
  Taps tap, winner, above;
};

/// Numbers of the taps of windows, also of those that have none, or none in their first column:
/// there stand the elements of their second one.
template <class A>
struct LaneNumbers {
  TapNumbers<A> all, without_first, none;
  LaneNumbers() {
    for (int k = 0; k < 9; ++k) {
      without_first.of[k] = all_lanes(A(k % 3 == 0 ? k + 1 : k));
      none.of[k] = all_lanes(A{-1});
    }
  }
};

/// Windows that follow each other along a row. Taps that do not exist are read from others that
/// come before them in the window, which no tap of their size wins against.
template <class T, class K>
struct LaneRow {
  const T* x[2];      // the rows below the windows' first one
  int64_t near, far;  // elements from a window's first column to its second and third
  const T *grad, *grad_above;
  int64_t grad_before;  // elements back to the window on the left
  T* dst[2][2];
  LanePlace<K>* place;
  const TapNumbers<IntegerLike<K>>* searched;
  const TapNumbers<int32_t>* collected;
  int64_t step, grad_step, dst_step, count, lanes, vectors;
  int64_t ahead, grad_ahead;  // elements to the next row's, which are fetched; 0: they are not
};

template <int kFirst, class T, class K>
[[gnu::always_inline]] inline Winners<K> search_lanes(const T* x, const LaneRow<T, K>& w,
                                                      NanSeen& nan) {
  const auto key = [](const T* at) {
    if constexpr (std::is_same_v<K, float>)
      return load_vector<Vector<K>>(at);
    else
      return keys_of<T>(load_vector<Vector<K>>(at));
  };
  const auto a = key(x), b = key(x + w.near), c = key(x + w.far);
  if constexpr (std::is_same_v<K, float>) {
    nan.see(a, b);
    nan.see(c, c);
  }
  const auto& number = *w.searched;
  Winners<K> found{a, number.of[kFirst]};
  found.offer(b, number.of[kFirst + 1]);
  found.offer(c, number.of[kFirst + 2]);
  return found;
}

/// Part kHalf of the numbers in a place, as wide as sums.
template <int kHalf, class Taps>
RowTaps taps_of(const Taps& tap) {
  if constexpr (sizeof(tap[0]) == 2)
    return wide_taps<kHalf>(tap);
  else
    return tap;
}

/// Hands out what the elements of a place get; `i` elements from the row's own pointers on.
template <int kHalf, class T, class K>
[[gnu::always_inline]] inline void share_lanes(const LaneRow<T, K>& w, const LanePlace<K>& here,
                                               const LanePlace<K>& left, int64_t grad,
                                               int64_t dst) {
  const int64_t at = grad + kHalf * kRowLanes, to = dst + kHalf * kRowLanes;
  const SharedGrads s = share_grads(
      {taps_of<kHalf>(here.winner), load_floats(w.grad + at)},
      {taps_of<kHalf>(left.winner), load_floats(w.grad + at - w.grad_before)},
      {taps_of<kHalf>(here.above), load_floats(w.grad_above + at)},
      {taps_of<kHalf>(left.above), load_floats(w.grad_above + at - w.grad_before)}, *w.collected);
  store_floats(w.dst[0][0] + to, s.ends);
  store_floats(w.dst[0][1] + to, s.middle);
  store_floats(w.dst[1][0] + to, s.ends_below);
  store_floats(w.dst[1][1] + to, s.middle_below);
}

/// What the windows below these take, a line of each; `at` and `grad_at` are where these stand.
template <class T, class K>
[[gnu::always_inline]] inline void fetch_ahead(const LaneRow<T, K>& w, int64_t at,
                                               int64_t grad_at) {
  for (const T* const row : w.x) {
    __builtin_prefetch(row + at + w.ahead, 0, 2);
    __builtin_prefetch(row + at + w.near + w.ahead, 0, 2);
  }
  __builtin_prefetch(w.grad + grad_at + w.grad_ahead, 0, 2);
}

/// The last vector of lanes may overlap the one before. Of no use, and false, where floats are keys
/// and there is a NaN.
template <class T, class K>
[[gnu::noinline]] bool search_and_share(const LaneRow<T, K>& row) {
  constexpr int64_t kVectorsOfLine = 64 / kVectorBytes;
  const LaneRow<T, K> w = row;
  LanePlace<K>* place = w.place;
  NanSeen nan;
  const bool is_fetched = w.ahead != 0;
  for (int64_t c = 0; c < w.count; ++c)
    for (int64_t v = 0; v < w.vectors; ++v, ++place) {
      const int64_t lane = std::min(v * kLanes<K>, w.lanes - kLanes<K>), at = c * w.step + lane;
      if (is_fetched && v % kVectorsOfLine == 0) fetch_ahead(w, at, c * w.grad_step + lane);
      const auto b = search_lanes<3>(w.x[0] + at, w, nan), d = search_lanes<6>(w.x[1] + at, w, nan);
      Winners<K> all{place->best, place->tap};
      all.offer(b.best, b.tap);
      all.offer(d.best, d.tap);
      LanePlace<K> here{d.best, d.tap - 6, all.tap, place->winner};
      *place = here;
      const LanePlace<K>& left = place[-w.vectors];
      share_lanes<0>(w, here, left, c * w.grad_step + lane, c * w.dst_step + lane);
      if constexpr (sizeof(T) == 2)
        share_lanes<1>(w, here, left, c * w.grad_step + lane, c * w.dst_step + lane);
    }
  return !nan.any();
}

/// Blocks of kHeight rows of windows. Those of a plane that a thread does one after the other go on
/// where the last one ended; others begin two rows before, for what these leave in places.
struct LaneRowShape {
  static constexpr int64_t kHeight = tuning::pool_grad::kLaneRowHeight,
                           kPlaceBytes = tuning::pool_grad::kPlaceBytes,
                           kStagedBytes = tuning::pool_grad::kStagedBytes;

  const PoolGradPlan& plan;
  const PoolPlan& f;
  const PoolAxis &y, &x;
  int64_t lanes, rows, columns;  // windows along both axes that begin within x, or start before
  int64_t staged;                // windows of a row whose results are gathered

  static bool fits(const PoolGradPlan& plan) {
    const PoolPlan& f = plan.forward;
    const PoolAxis& z = f.axis[0];
    const auto suits = [](const PoolAxis& a) {
      return a.window == 3 && a.stride == 2 && a.dilation == 1 && a.start <= 1 && a.out > 0;
    };
    return z.in * z.out * z.window == 1 && z.start == 0 && suits(f.axis[1]) && suits(f.axis[2]) &&
           has_lanes(plan) && f.x.batch[1] == 1 && f.y.batch[1] == 1 &&
           f.batch[1] * int64_t(size_of(f.dtype)) >= kVectorBytes;
  }

  explicit LaneRowShape(const PoolGradPlan& p) : plan(p), f(p.forward), y(f.axis[1]), x(f.axis[2]) {
    const int64_t bytes = size_of(f.dtype), line = 64 / bytes;
    rows = (y.in + 1 + y.start) / 2;
    columns = (x.in + 1 + x.start) / 2;
    const int64_t most = std::max(line, kPlaceBytes / (columns * 4 * bytes));
    lanes = (even_part(f.batch[1], most) + line - 1) / line * line;
    const int64_t last = f.batch[1] % lanes;  // they have a vector too
    if (last > 0 && last * bytes < kVectorBytes) lanes = f.batch[1];
    staged = std::max<int64_t>(1, kStagedBytes / (2 * std::min(lanes, f.batch[1]) * bytes));
  }

  TaskSpace tasks() const {
    TaskSpace space = plane_tasks(plan, true, lanes);
    space.dim[kSpaceDim + 1].size = (rows + kHeight - 1) / kHeight;
    return space;
  }
};

template <class T, class K>
class MaxLaneRows {
  using Place = LanePlace<K>;

 public:
  struct Room {
    std::unique_ptr<char[]> bytes;
    Place *before, *places;  // the former one pixel
    T* lines[3];             // results of two rows, and one pixel of no use
    LaneNumbers<IntegerLike<K>> searched;
    TapNumbers<int32_t> collected[2][2];  // by whether there are windows here, and above
    LineStream out;
    const T* plane = nullptr;  // that goes on with row `next` of windows
    int64_t next = 0, pixel;   // places of a pixel

    explicit Room(const LaneRowShape& s) {
      const int64_t lanes = std::min(s.lanes, s.f.batch[1]);
      pixel = (lanes + kLanes<K> - 1) / kLanes<K>;
      const int64_t all = (s.columns + 1) * pixel, line = 2 * s.staged * lanes;
      bytes.reset(
          new char[size_t(64 + all * int64_t(sizeof(Place)) + 3 * line * int64_t(sizeof(T)))]);
      before = reinterpret_cast<Place*>(bytes.get() + bytes_to_line(bytes.get()));
      places = before + pixel;
      lines[0] = reinterpret_cast<T*>(before + all);
      lines[1] = lines[0] + line;
      lines[2] = lines[1] + line;
      for (int i = 0; i < 4; ++i)
        for (int k = 0; k < 9; ++k)
          if (!(k < 6 ? i / 2 : i % 2)) collected[i / 2][i % 2].of[k] = all_lanes(-2);
    }

    void clear(const LaneRowShape& s) {
      using A = IntegerLike<K>;
      std::fill(
          before, places + s.columns * pixel,
          Place{all_lanes(kNoneBefore<K>), all_lanes(A{-1}), all_lanes(A{-1}), all_lanes(A{-1})});
    }
  };

  MaxLaneRows(const LaneRowShape& shape, const void* x, const void* grad, void* result)
      : s_(shape),
        x_(static_cast<const T*>(x)),
        grad_(static_cast<const T*>(grad)),
        output_(shape.plan, result) {}

  /// False where the block has to be done by other keys.
  bool block(const Task& task, Room& room) const {
    const int64_t first = task.space(1) * LaneRowShape::kHeight;
    const int64_t last = std::min(first + LaneRowShape::kHeight, s_.rows);
    const T* const plane = x_ + task.flat;
    int64_t o = first;
    if (room.plane != plane || room.next != first) {
      room.clear(s_);
      o = std::max<int64_t>(first - 2, s_.y.start > 0 ? 0 : -1);
    }
    room.plane = nullptr;
    for (; o < last; ++o)
      if (!row(task, o, o >= first, room)) {
        room.out.finish();
        return false;
      }
    room.plane = plane;
    room.next = last;
    return true;
  }

 private:
  bool row(const Task& task, int64_t o, bool is_shared, Room& room) const {
    const int64_t whole = std::min(s_.x.out, (s_.x.in - 3 + s_.x.start + 2) / 2);
    bool are_numbers = true;
    for (int64_t p = 0, n; p < s_.columns; p += n) {
      n = p == 0 || p >= whole ? 1 : std::min(s_.staged, whole - p);
      are_numbers &= part(task, o, p, n, is_shared, room);
    }
    return are_numbers;
  }

  /// Windows [p, p + n) of row o: one of them where some of their columns do not exist.
  bool part(const Task& task, int64_t o, int64_t p, int64_t n, bool is_shared, Room& room) const {
    const PoolAxis &y = s_.y, &x = s_.x;
    const PoolStrides &xs = s_.f.x, &gs = s_.f.y;
    const int64_t top = 2 * o - y.start, front = 2 * p - x.start;
    const auto column = [&](int64_t c) {
      return std::clamp<int64_t>(front + c, 0, x.in - 1) * xs.space[2];
    };
    LaneRow<T, K> w;
    for (int64_t r = 0; r < 2; ++r)
      w.x[r] =
          x_ + task.flat + std::clamp<int64_t>(top + 1 + r, 0, y.in - 1) * xs.space[1] + column(0);
    w.near = column(1) - column(0);
    w.far = column(2) - column(0);
    const auto grad_at = [&](int64_t q) {
      return std::clamp<int64_t>(q, 0, x.out - 1) * gs.space[2];
    };
    const T* const grad = grad_ + task.y + grad_at(p);
    w.grad = grad + std::clamp<int64_t>(o, 0, y.out - 1) * gs.space[1];
    w.grad_above = grad + std::clamp<int64_t>(o - 1, 0, y.out - 1) * gs.space[1];
    w.grad_before = grad_at(p) - grad_at(p - 1);
    w.place = room.places + p * room.pixel;
    const bool exist = o < y.out && p < x.out;
    const auto& numbers = room.searched;
    w.searched = !exist ? &numbers.none : front < 0 ? &numbers.without_first : &numbers.all;
    w.collected = &room.collected[o < y.out][o > 0 && o <= y.out];
    set_ahead(w);
    w.step = 2 * xs.space[2];
    w.grad_step = gs.space[2];
    w.count = n;
    w.lanes = task.n;
    w.vectors = room.pixel;
    return share(task, top, front, is_shared, room, w);
  }

  void set_ahead(LaneRow<T, K>& w) const {
    using tuning::pool_grad::kLanesAheadBytes, tuning::pool_grad::kNextRowsBytes;
    constexpr int64_t kAhead = kLanesAheadBytes / int64_t(sizeof(T));
    const int64_t rows = 2 * s_.f.x.space[1];
    const bool is_kept = std::abs(rows) * int64_t(sizeof(T)) <= kNextRowsBytes;
    w.ahead = !output_.is_streamed() ? 0 : is_kept ? rows : kAhead;
    w.grad_ahead = is_kept ? s_.f.y.space[1] : kAhead / 2;
  }

  /// Results go to their place, or by way of lines; those of no elements nowhere.
  bool share(const Task& task, int64_t top, int64_t front, bool is_shared, Room& room,
             LaneRow<T, K>& w) const {
    const int64_t from = std::max<int64_t>(0, front);
    const int64_t to = std::min(front + 2 * w.count, s_.x.in);
    const auto is_row = [&](int64_t r) { return is_shared && top + r >= 0 && top + r < s_.y.in; };
    const bool is_direct = !output_.is_streamed() && is_row(0) && is_row(1);
    w.dst_step = 2 * (is_direct ? s_.plan.result.space[2] : task.n);
    for (int64_t r = 0; r < 2; ++r)
      for (int64_t c = 0; c < 2; ++c) {
        const bool is_column = front + c >= from && front + c < to;
        w.dst[r][c] = !is_direct  ? room.lines[r] + c * task.n
                      : is_column ? output_.place(task, 0, top + r, front + c)
                                  : room.lines[2];
      }
    const bool are_numbers = search_and_share(w);
    for (int64_t r = 0; r < 2 && !is_direct; ++r)
      if (is_row(r))
        output_.put(task, 0, top + r, from, to - from, room.lines[r] + (from - front) * task.n,
                    room.out);
    return are_numbers;
  }

  const LaneRowShape& s_;
  const T* const x_;
  const T* const grad_;
  const LaneOutput<T> output_;
};

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
