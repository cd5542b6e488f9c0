// Gradient of max pooling by 3 x 3 windows that advance by 1: a row of some planes at once, after
// the other. Of planes side by side, neighbours along a row stand as many elements apart.
#pragma once

#include <memory>

#include "cpu/memory/tuning.h"
#include "cpu/pool_grad/max_lanes.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

/// Blocks of rows and columns of some planes. Lines hold one segment for each plane, or one for all
/// that lie side by side, each with room for two columns before and two behind.
struct StepShape {
  static constexpr int64_t kRowBytes = tuning::pool_grad::kStepRowBytes,
                           kLaneBytes = tuning::pool_grad::kStepLaneBytes,
                           kRowElements = tuning::pool_grad::kBlockRowElements;

  const PoolGradPlan& plan;
  const PoolPlan& f;
  const PoolAxis &y, &x;
  bool is_side_by_side;
  int64_t planes, columns, height;  // of a block, at most
  int64_t width;                    // elements of its lines

  static bool fits(const PoolGradPlan& plan) {
    const PoolPlan& f = plan.forward;
    const PoolAxis& z = f.axis[0];
    const auto suits = [](const PoolAxis& a) {
      return a.window == 3 && a.stride == 1 && a.dilation == 1 && a.start <= 2 && a.out > 0;
    };
    return z.in * z.out * z.window == 1 && z.start == 0 && suits(f.axis[1]) && suits(f.axis[2]) &&
           (has_rows(plan) || has_planes(plan));
  }

  explicit StepShape(const PoolGradPlan& p)
      : plan(p), f(p.forward), y(f.axis[1]), x(f.axis[2]), is_side_by_side(!has_rows(p)) {
    const int64_t bytes = size_of(f.dtype),
                  most = (is_side_by_side ? kLaneBytes : kRowBytes) / bytes;
    planes = even_part(f.batch[1], std::max<int64_t>(1, most / (x.in + 4)));
    if (is_side_by_side) {
      const int64_t line = 64 / bytes;
      planes = std::min(f.batch[1], (planes + line - 1) / line * line);
      const int64_t last = f.batch[1] % planes;  // they have a vector too
      if (last > 0 && last * bytes < kVectorBytes) planes = f.batch[1];
    }
    columns = even_part(x.in, std::max<int64_t>(8, most / planes));
    width = (columns + 4) * planes;
    height = even_part(y.in, std::max<int64_t>(32, kRowElements / (columns * planes)));
  }

  TaskSpace tasks() const {
    TaskSpace space = plane_tasks(plan, true, planes);
    space.dim[kSpaceDim + 1].size = (y.in + height - 1) / height;
    space.dim[kSpaceDim + 2].size = (x.in + columns - 1) / columns;
    return space;
  }

 private:
  static bool has_rows(const PoolGradPlan& plan) {
    return plan.forward.x.space[2] == 1 && plan.forward.y.space[2] == 1 &&
           plan.result.space[2] == 1;
  }
  /// A vector of them, or rows of them without gaps.
  static bool has_planes(const PoolGradPlan& plan) {
    const PoolPlan& f = plan.forward;
    const int64_t n = f.batch[1];
    if (f.x.batch[1] != 1 || f.y.batch[1] != 1 || plan.result.batch[1] != 1) return false;
    return n * int64_t(size_of(f.dtype)) >= kVectorBytes ||
           (f.x.space[2] == n && f.y.space[2] == n && plan.result.space[2] == n);
  }
};

/// The largest of three neighbours, `step` apart, and which it is: 0, 1 or 2.
template <class K>
[[gnu::noinline]] void join_columns(const K* keys, int64_t step, int64_t n, K* best, K* tap) {
  for (int64_t i = 0; i < n; i += kLanes<K>) {
    const auto a = load_vector<Vector<K>>(keys + i), b = load_vector<Vector<K>>(keys + i + step),
               c = load_vector<Vector<K>>(keys + i + 2 * step);
    const auto two = b > a ? b : a;
    const auto first = b > a ? all_lanes(K{1}) : Vector<K>{};
    store_vector(best + i, c > two ? c : two);
    store_vector(tap + i, c > two ? all_lanes(K{2}) : first);
  }
}

/// A row's windows by their rows: where these were joined, and where the numbers of winners go.
template <class T>
struct StepRows {
  const RowKey<T>*best[3], *tap[3];
  LaneTap<T>* winner;
};

template <class T>
[[gnu::noinline]] void join_window_rows(const StepRows<T>& rows, int64_t n) {
  using K = RowKey<T>;
  const StepRows<T> w = rows;
  for (int64_t i = 0; i < n; i += kLanes<K>) {
    auto best = load_vector<Vector<K>>(w.best[0] + i), tap = load_vector<Vector<K>>(w.tap[0] + i);
#pragma GCC unroll 2
    for (int r = 1; r < 3; ++r) {
      const auto key = load_vector<Vector<K>>(w.best[r] + i);
      const Vector<K> number = load_vector<Vector<K>>(w.tap[r] + i) + K(3 * r);
      tap = key > best ? number : tap;
      best = key > best ? key : best;
    }
    store_taps<T>(w.winner + i, tap);
  }
}

/// What a row of elements gets: winners and gradients of the windows that it is the first, second
/// and third row of, from the first window over the first element on.
template <class T>
struct StepShares {
  const LaneTap<T>* winner[3];
  const Acc<T>* grad[3];
  int64_t step;
};

/// Runs of `n` elements, in lines and in the result.
template <class T>
struct StepRuns {
  int64_t count, n, step;
  T* dst;
  int64_t dst_step;
  int64_t ahead;  // elements to what is fetched
};

/// A vector of elements from number `at` of the line on.
template <class T>
[[gnu::always_inline]] inline void share_step(const StepShares<T>& s, int64_t at, T* dst) {
  using Sum = Acc<T>;
  Vector<Sum> sum = {};
#pragma GCC unroll 3
  for (int r = 0; r < 3; ++r)
#pragma GCC unroll 3
    for (int k = 0; k < 3; ++k) {
      const int64_t from = at + (2 - k) * s.step;
      const auto more = load_vector<Vector<Sum>>(s.grad[r] + from);
      const auto won = load_vector<Vector<LaneTap<T>>>(s.winner[r] + from);
      sum = won == LaneTap<T>(3 * r + k) ? sum + more : sum;
    }
  store_floats(dst, sum);
}

/// The last vector of a run may overlap the one before; shorter runs go by way of a room.
template <class T>
[[gnu::noinline]] void share_steps(const StepShares<T>& shares, const StepRuns<T>& runs) {
  constexpr int64_t kStep = kLanes<Acc<T>>;
  const StepShares<T> s = shares;
  T* dst = runs.dst;
  for (int64_t c = 0; c < runs.count; ++c, dst += runs.dst_step) {
    if (runs.n < kStep) {
      T room[kStep];
      share_step<T>(s, c * runs.step, room);
      std::copy_n(room, runs.n, dst);
      continue;
    }
    for (int64_t i = 0; i < runs.n; i += kStep) {
      i = std::min(i, runs.n - kStep);
      __builtin_prefetch(dst + i + runs.ahead, 1, 3);
      share_step<T>(s, c * runs.step + i, dst + i);
    }
  }
}

template <class T>
class MaxSteps : LaneBlocks<T, StepShape> {
  using Base = LaneBlocks<T, StepShape>;
  using Base::f_, Base::grad_, Base::result_, Base::s_, Base::x_;
  using K = RowKey<T>;
  using Tap = LaneTap<T>;
  using Sum = Acc<T>;

 public:
  using Base::Base;

  void run() const {
    Base::template run_blocks<Room>([&](const Task& task, Room& room) {
      block(Block(s_, task), room);
      checkpoint_for(s_.height * s_.width);
    });
  }

 private:
  static constexpr K kNone = std::numeric_limits<K>::min();  // below every key

  /// Lines with a vector of room behind them. Rows of x and of windows take turns. What stands for
  /// columns and windows that do not exist is never written: no key, and gradients of 0.
  struct Room {
    std::unique_ptr<char[]> bytes;
    int64_t pitch;
    K *keys, *none, *best[3], *tap[3];
    Tap* winner[3];
    Sum *grad[3], *no_grad;

    explicit Room(const StepShape& s) : pitch((s.width + 2 * kLanes<K> + 63) / 64 * 64) {
      bytes.reset(new char[size_t(64 + pitch * int64_t(8 * sizeof(K) + 7 * sizeof(Sum)))]);
      char* at = bytes.get() + bytes_to_line(bytes.get());
      const auto take = [&]<class A>(A*& line) {
        line = reinterpret_cast<A*>(at);
        at += pitch * int64_t(sizeof(A));
        std::fill_n(line, pitch, A{0});
      };
      take(keys);
      take(none);
      take(no_grad);
      for (int i = 0; i < 3; ++i) {
        take(best[i]);
        take(tap[i]);
        take(winner[i]);
        take(grad[i]);
      }
      std::fill_n(none, pitch, kNone);
    }

    void clear() {
      std::fill_n(keys, pitch, kNone);
      for (Sum* line : grad) std::fill_n(line, pitch, Sum{0});
    }
  };

  /// Columns [from, to) and rows [top, bottom) of some planes, and windows [first, last) that reach
  /// there along a row.
  struct Block {
    const Task& task;
    int64_t from, to, top, bottom, first, last;
    int64_t segments, step, pitch;  // of a line; from neighbour to neighbour, and segments

    Block(const StepShape& s, const Task& t)
        : task(t),
          from(t.space(2) * s.columns),
          to(std::min(s.x.in, from + s.columns)),
          top(t.space(1) * s.height),
          bottom(std::min(s.y.in, top + s.height)),
          first(std::max<int64_t>(0, from + s.x.start - 2)),
          last(std::max(first, std::min(s.x.out, to + s.x.start))),
          segments(s.is_side_by_side ? 1 : t.n),
          step(s.is_side_by_side ? t.n : 1),
          pitch((to - from + 4) * step) {}
  };

  void block(const Block& b, Room& room) const {
    const int64_t start = s_.y.start;
    int64_t loaded = std::max<int64_t>(0, b.top - 2), p = std::max<int64_t>(0, b.top + start - 2);
    room.clear();
    for (int64_t row = b.top; row < b.bottom; ++row) {
      for (; p <= std::min(row + start, s_.y.out - 1); ++p) {
        for (; loaded < std::min(s_.y.in, p - start + 3); ++loaded) load(b, loaded, room);
        search(b, p, room);
      }
      share(b, row, room);
    }
  }

  /// Calls body(pixels, lanes, distance) with `n` elements of a row of each plane, from `at` on: of
  /// all planes side by side as one where there are no gaps.
  template <class Body>
  static void for_row(const Block& b, const T* at, int64_t n, int64_t step, int64_t plane,
                      const Body& body) {
    if (b.segments > 1 || b.step == 1)
      body(Pixels<const T>{at, plane, b.segments}, n, b.pitch);
    else if (step == b.step)
      body(Pixels<const T>{at, n * step, 1}, n * step, n * step);
    else
      body(Pixels<const T>{at, step, n}, b.step, b.step);
  }

  /// Row r of x, joined by the columns of windows.
  void load(const Block& b, int64_t r, Room& room) const {
    const int64_t from = std::max<int64_t>(0, b.from - 2), to = std::min(s_.x.in, b.to + 2);
    const int64_t before = (from - b.from + 2) * b.step, end = (to - b.from + 2) * b.step;
    for_row(b, x_ + b.task.flat + r * f_.x.space[1] + from * f_.x.space[2], to - from,
            f_.x.space[2], f_.x.batch[1], [&](Pixels<const T> x, int64_t lanes, int64_t pitch) {
              load_lane_keys<T>(x, lanes, room.keys + before, pitch);
              for (int64_t i = 0; i < x.count; ++i)
                for (int64_t j = 0; j < lanes; j += 64 / int64_t(sizeof(T)))
                  __builtin_prefetch(x.at + i * x.step + j + f_.x.space[1], 0, 3);
              if (lanes >= kLanes<K>) return;
              for (int64_t i = 0; i < b.segments; ++i) {  // whole vectors were written
                K* const keys = room.keys + i * b.pitch;
                std::fill(keys, keys + before, kNone);
                std::fill(keys + end, keys + b.pitch, kNone);
              }
            });
    join_columns<K>(room.keys, b.step, b.segments * b.pitch - 2 * b.step, room.best[r % 3],
                    room.tap[r % 3]);
  }

  /// Winners and gradients of row p of the windows.
  void search(const Block& b, int64_t p, Room& room) const {
    StepRows<T> rows;
    for (int64_t i = 0; i < 3; ++i) {
      const int64_t r = p - s_.y.start + i;
      const bool is_row = r >= 0 && r < s_.y.in;
      rows.best[i] = is_row ? room.best[r % 3] : room.none;
      rows.tap[i] = is_row ? room.tap[r % 3] : room.none;
    }
    rows.winner = room.winner[p % 3];
    join_window_rows<T>(rows, b.segments * b.pitch - 2 * b.step);
    Sum* const to = room.grad[p % 3] + (b.first - b.from - s_.x.start + 2) * b.step;
    const T* const at = grad_ + b.task.y + p * f_.y.space[1] + b.first * f_.y.space[2];
    for_row(b, at, b.last - b.first, f_.y.space[2], f_.y.batch[1],
            [&](Pixels<const T> grad, int64_t lanes, int64_t pitch) {
              load_lane_grads<T>(grad, lanes, 1, f_.y.space[1], to, pitch);
            });
  }

  void share(const Block& b, int64_t row, Room& room) const {
    StepShares<T> s;
    s.step = b.step;
    for (int64_t i = 0; i < 3; ++i) {
      const int64_t p = row + s_.y.start - i;
      const bool exists = p >= 0 && p < s_.y.out;
      s.winner[i] = room.winner[exists ? p % 3 : 0];
      s.grad[i] = exists ? room.grad[p % 3] : room.no_grad;
    }
    const PoolStrides& r = s_.plan.result;
    T* const dst = result_ + b.task.x + row * r.space[1] + b.from * r.space[2];
    const int64_t n = b.to - b.from, ahead = r.space[1];
    if (!s_.is_side_by_side)
      share_steps<T>(s, {b.segments, n, b.pitch, dst, r.batch[1], ahead});
    else if (r.space[2] == b.step)
      share_steps<T>(s, {1, n * b.step, 0, dst, 0, ahead});
    else
      share_steps<T>(s, {n, b.step, b.step, dst, r.space[2], ahead});
  }
};

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
