// One window for each of many neighbouring planes, without indices.
#pragma once

#include "cpu/pool/value_pool.h"
#include "cpu/threads/arena.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

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

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
