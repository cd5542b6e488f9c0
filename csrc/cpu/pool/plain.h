// Pooling without indices, a window at a time: lanes of neighbouring planes, single windows,
// planes.
#pragma once

#include "cpu/pool/finish.h"
#include "cpu/threads/arena.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

template <class Op, class Finish>
struct ValuePool {
  using T = typename Op::Element;
  using V = typename Op::V;
  using Total = typename Op::Total;
  /// What has loops of its own for the usual windows: the usual types, whose vectors are finished
  /// one by one.
  static constexpr bool kIsUsual =
      (sizeof(T) <= 2 || std::is_same_v<T, float>) && !std::is_same_v<Finish, LpFinish<T>>;
  /// What has more of them: not what is kept small, for processors that are hardly met.
#if defined(__x86_64__) && !defined(__AVX__)
  static constexpr bool kIsLarge = false;
#else
  static constexpr bool kIsLarge = kIsUsual;
#endif
  const PoolPlan& plan;
  Op op;
  const Finish& finish;
  const T* x;
  T* y;
  const T* end;  // of x

  V again(const Box& box, int64_t at) const { return scaled_norm<V>(plan, box, x + at); }
  /// Writes one output of a window.
  void put(int64_t at, Total total, const Box& box, int64_t plane) const {
    const V v = box.taps == 0 ? Op::none() : finish.one(total, counted(plan, box), [&](int64_t) {
      return again(box, plane);
    });
    store_part(op, y + at, all_lanes(v), 1);
  }
};

/// One window for each of many neighbouring planes: x is packed along the innermost batch
/// dimension.
template <class Op, class Finish>
class LanePool : ValuePool<Op, Finish> {
  using Base = ValuePool<Op, Finish>;
  using Base::finish, Base::op, Base::plan, Base::x, Base::y, Base::end;
  using typename Base::T, typename Base::V;

 public:
  using typename Base::Total;
  static constexpr Lane kLane = Lane::batch;
  static constexpr int64_t kChunk = 2048;
  explicit LanePool(const Base& base) : Base(base), fetches_(is_copy_streamed(input_bytes(plan))) {}
  static Total combine(Total a, Total b) { return Op::join(a, b); }

  void whole(const Task& task) const {
    const Box box = box_of(plan, task, 3);
    if (box.taps > kChain) {
      const Room<Line<Total>> totals;
      piece(task, box, 0, box.taps, totals->at);
      return store(task, box, totals->at);
    }
    const Room<Line<V>> line;
    const Room<Line<T>> out;
    if (box.taps == 0) {
      for (int64_t i = 0; i < task.n; ++i) store_part(op, out->at + i, all_lanes(Op::none()), 1);
    } else {
      checkpoint_for(box.taps * task.n);
      run(task, box, 0, box.taps, line->at);
      finish.write(op, {0, 1, task.n, 1, counted(plan, box)}, line->at, out->at,
                   [&](int64_t i) { return this->again(box, task.x + i); });
    }
    put(task, out->at);
  }

  /// Joins taps [f, end) of a window; f < end.
  void piece(const Task& task, const Box& box, int64_t f, int64_t last, Total* totals) const {
    const Room<Line<V>> joined;
    for (bool first = true; f < last; first = false) {
      const int64_t n = std::min(kChain, last - f);
      checkpoint_for(n * task.n);
      run(task, box, f, n, joined->at);
      for (int64_t i = 0; i < task.n; ++i)
        totals[i] = first ? Total(joined->at[i]) : Op::join(totals[i], Total(joined->at[i]));
      f += n;
    }
  }

  void store(const Task& task, const Box& box, const Total* totals) const {
    Task at = task;
    for (int64_t i = 0; i < task.n; ++i) {
      Base::put(at.y, totals[i], box, at.x);
      at.x += plan.x.batch[1];
      at.y += plan.y.batch[1];
    }
  }

 private:
  template <class A>
  struct Line {
    alignas(64) A at[kChunk + kSlack];
  };

  /// Memory is read fastest from front to back: long rows one by one, of short ones a few
  /// kilobytes at a time.
  void run(const Task& task, const Box& box, int64_t f, int64_t taps, V* line) const {
    constexpr int64_t kLong = 1024, kBlock = 2048, kFar = 16384;  // bytes
    const int64_t row = task.n * int64_t(sizeof(T));
    if (taps > kRowsAtOnce && row < kLong && box.count[0] * box.count[1] == 1) {
      const int64_t most = std::max(kRowsAtOnce, kBlock / row), pitch = box.x_step[2];
      const T* first = x + task.x + box.x + f * pitch;
      for (int64_t r = 0; r < taps; r += most, first += most * pitch) {
        if (pitch == task.n) fetch_ahead(first, most * pitch);
        join_some(first, pitch, std::min(most, taps - r), r > 0, task.n, line);
      }
      return;
    }
    const RowList<T> list(x + task.x, box, f, taps);
    if (taps <= kRowsAtOnce || row < kLong)
      return join_rows(op, list.at, taps, 0, task.n, end, line);
    for (int64_t r = 0; r < taps; ++r) {
      if (fetches_) fetch_ahead<kFar>(list.at[r], task.n);
      if (r == 0)
        join_group<1, false>(op, list.at, 1, 0, task.n, end, line);
      else
        join_group<1, true>(op, list.at + r, 1, 0, task.n, end, line);
    }
  }

  /// Joins `count` rows, `pitch` apart, and the line where there is `more` in it.
  void join_some(const T* first, int64_t pitch, int64_t count, bool more, int64_t n,
                 V* line) const {
    constexpr int64_t kStep = kLanes<V>;
    int64_t i = 0;
    if (count >= 2) {
      for (; i + 4 * kStep <= n; i += 4 * kStep)
        join_block<4>(first + i, pitch, count, more, line + i);
      for (; i + 2 * kStep <= n; i += 2 * kStep)
        join_block<2>(first + i, pitch, count, more, line + i);
    }
    for (; i < n; i += kStep) {
      auto v = more ? load_vector<Vector<V>>(line + i) : all_lanes(Op::none());
      for (int64_t r = 0; r < count; ++r)
        v = Op::join(v, load_part(op, first + r * pitch + i, std::min(kStep, n - i), end));
      store_vector(line + i, v);
    }
  }

  /// 2 or 4 vectors of a line, four running ones in all so that no chain holds the others up;
  /// count >= 2.
  template <int kColumns>
  void join_block(const T* row, int64_t pitch, int64_t count, bool more, V* line) const {
    constexpr int64_t kStep = 4 / kColumns;
    const auto tap = [&](int64_t j) {
      return op.load(row + j / kColumns * pitch + j % kColumns * kLanes<V>);
    };
    auto a = tap(0), b = tap(1), c = tap(2), d = tap(3);
    for (; (count -= kStep) >= kStep;) {
      row += kStep * pitch;
      a = Op::join(a, tap(0));
      b = Op::join(b, tap(1));
      c = Op::join(c, tap(2));
      d = Op::join(d, tap(3));
    }
    row += kStep * pitch;
    if (kColumns == 2 && count > 0) {
      a = Op::join(a, tap(0));
      b = Op::join(b, tap(1));
    }
    const auto put = [&](V* to, const Vector<V>& v) {
      store_vector(to, more ? Op::join(load_vector<Vector<V>>(to), v) : v);
    };
    put(line, kColumns == 2 ? Op::join(a, c) : a);
    put(line + kLanes<V>, kColumns == 2 ? Op::join(b, d) : b);
    if constexpr (kColumns == 2) return;
    put(line + 2 * kLanes<V>, c);
    put(line + 3 * kLanes<V>, d);
  }

  void put(const Task& task, const T* from) const {
    if (plan.y.batch[1] == 1)
      std::memcpy(y + task.y, from, size_t(task.n) * sizeof(T));
    else
      for (int64_t i = 0; i < task.n; ++i) y[task.y + i * plan.y.batch[1]] = from[i];
  }

  const bool fetches_;  // from memory: what a cache holds arrives without
};

/// One window at a time, vectors along its rows; takes any plan.
template <class Op, class Finish>
class WindowPool : ValuePool<Op, Finish> {
  using Base = ValuePool<Op, Finish>;
  using Base::op, Base::plan, Base::x, Base::y;
  using typename Base::T, typename Base::V;

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
    T room[kLine];
    TapCursor at(box, f);
    Pace pace;
    for (bool first = true; f < end; first = false) {
      const int64_t n = std::min({kLine, end - f, at.left_in_row()});
      const T* row = x + task.x + at.offset();
      if (const int64_t step = box.x_step[2]; step != 1 && n > 1) {
        for (int64_t i = 0; i < n; ++i) room[i] = row[i * step];
        row = room;
      }
      const Total joined = join_span(op, row, n);
      *total = first ? joined : Op::join(*total, joined);
      at.advance(n);
      f += n;
      pace.add(n);
    }
  }

  void store(const Task& task, const Box& box, const Total* total) const {
    Base::put(task.y, *total, box, task.x);
  }
};

/// One window that covers each plane, whose elements stand together: planes in a row of tasks.
template <class Op, class Finish>
class PlanePool : ValuePool<Op, Finish> {
  using Base = ValuePool<Op, Finish>;
  using Base::finish, Base::op, Base::plan, Base::x, Base::y;
  using typename Base::T, typename Base::V, typename Base::Total;

 public:
  static constexpr int64_t kChunk = 256;
  explicit PlanePool(const Base& base) : Base(base) {}

  static bool suits(const PoolPlan& p) {
    const PoolAxis& w = p.axis[2];
    const auto is_one_tap = [](const PoolAxis& a) {
      return a.in == 1 && a.out == 1 && a.window == 1 && a.start == 0;
    };
    return is_one_tap(p.axis[0]) && is_one_tap(p.axis[1]) && w.out == 1 && w.window == w.in &&
           w.start == 0 && w.end == 0 && w.dilation == 1 && p.x.space[2] == 1 && w.in < kPiece;
  }

  void operator()(const Task& task) const {
    const int64_t n = plan.axis[2].in;
    const T* plane = x + task.x;
    V values[kChunk + kSlack];
    const int64_t pitch = plan.x.batch[1];
    if (kTurns && n >= kLanes<V> && n < 16 * kLanes<V>) {
      if constexpr (kTurns)
        for (int64_t i = 0; i < task.n; i += kLanes<V>)
          store_vector(values + i, join_spans(op, plane + i * pitch, n, pitch, task.n - i));
    } else {
      for (int64_t i = 0; i < task.n; checkpoint_for(n), ++i, plane += pitch)
        values[i] = V(n <= kChain ? Total(join_span(op, plane, n)) : joined(plane, n));
    }
    T out[kChunk + kSlack];
    finish.write(op, {0, 1, task.n, 1, double(n)}, values, out, [&](int64_t i) {
      return this->again(box_of(plan, task, 3), task.x + i * plan.x.batch[1]);
    });
    for (int64_t i = 0; i < task.n; ++i) y[task.y + i * plan.y.batch[1]] = out[i];
  }

 private:
  /// Averages of short planes, as many at once as a vector has lanes.
  static constexpr bool kTurns =
      kIsHalf<T> && std::is_same_v<Finish, AverageFinish<T>> && Base::kIsLarge;
  Total joined(const T* plane, int64_t n) const {
    Total total = join_span(op, plane, kChain);
    for (int64_t i = kChain; i < n; i += kChain)
      total = Op::join(total, Total(join_span(op, plane + i, std::min(kChain, n - i))));
    return total;
  }
};

template <class Op, class Finish>
void pool_planes(const ValuePool<Op, Finish>& base) {
  using Planes = PlanePool<Op, Finish>;
  const TaskSpace space = make_tasks(base.plan, Lane::batch, Planes::kChunk);
  const Planes planes(base);
  parallel_for(space.count(), work_bytes(base.plan), [&](int64_t begin, int64_t end) {
    for_tasks(space, begin, end, [&](const Task& task, int64_t) { planes(task); });
  });
}

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
