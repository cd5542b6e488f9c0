// One window for each of many neighbouring planes, without indices.
#pragma once

#include "cpu/memory/tuning.h"
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
  static constexpr int64_t kChunk = tuning::pool::kLanesAtOnce;
  static constexpr bool kHasOrder = !Op::kRepeats;
  explicit LanePool(const Base& base)
      : Base(base),
        fetches_(is_copy_streamed(input_bytes(plan))),
        rows_first_(!Op::kRepeats && joins_rows_first(plan)) {}
  static Total combine(Total a, Total b) { return Op::join(a, b); }

  void whole(const Task& task) const {
    const Box box = box_of(plan, task, 3);
    if (box.taps > kChain && !rows_first_) {
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
      if (rows_first_)
        run_columns(task, box, line->at);
      else
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

  /// Joins the taps of every column, then the columns.
  void run_columns(const Task& task, const Box& box, V* line) const {
    const Room<Line<V>> room;
    Box column = box;
    column.count[2] = 1;
    column.taps = box.count[0] * box.count[1];
    for (int64_t c = 0; c < box.count[2]; ++c, column.x += box.x_step[2]) {
      const RowList<T> list(x + task.x, column, 0, column.taps);
      join_rows(op, list.at, column.taps, 0, task.n, end, c > 0 ? room->at : line);
      for (int64_t i = 0; c > 0 && i < task.n; i += kLanes<V>)
        join_into(line + i, load_vector<Vector<V>>(room->at + i));
    }
  }

  /// Joins a run of taps, kRowsAtOnce and then the next ones. Memory is read fastest from front to
  /// back: long rows one by one, of short ones a few kilobytes at a time. A processor that
  /// foresees runs by itself does so in several pages at once, where rows do not follow each other.
  void run(const Task& task, const Box& box, int64_t f, int64_t taps, V* line) const {
    using tuning::pool::kLongRunBytes, tuning::pool::kRunBlockBytes;
    const int64_t row = task.n * int64_t(sizeof(T));
    if (taps > kRowsAtOnce && row < kLongRunBytes && box.count[0] * box.count[1] == 1) {
      const int64_t groups = 1 + (kRunBlockBytes - 1) / (row * kRowsAtOnce);
      const int64_t most = groups * kRowsAtOnce, pitch = box.x_step[2];
      const T* first = x + task.x + box.x + f * pitch;
      const AheadOf<Op> ahead(op, pitch == task.n ? kUnderWayBytes : 0);
      for (int64_t r = 0; r < taps; r += most, first += most * pitch) {
        join_some(ahead, first, pitch, std::min(most, taps - r), r > 0, task.n, line);
      }
      return;
    }
    const RowList<T> list(x + task.x, box, f, taps);
    const bool are_foreseen = box.x_step[2] != task.n && !processor.is_told_of_runs;
    if (taps <= kRowsAtOnce || row < kLongRunBytes || !fetches_ || are_foreseen)
      return join_rows(op, list.at, taps, 0, task.n, end, line);
    if (processor.is_told_of_runs)
      join_long_rows(AheadOf<Op>(op, tuning::pool::kRunAheadBytes), list.at, taps, task.n, line);
    else
      join_long_rows(op, list.at, taps, task.n, line);
  }

  /// Row by row, each with the line that stays in the first cache.
  template <class Load>
  void join_long_rows(const Load& op, const T* const* rows, int64_t count, int64_t n,
                      V* line) const {
    const Room<Line<V>> room;
    for (int64_t r = 0; r < count; ++r) {
      // What is joined in any order needs no room for groups.
      const int64_t place = Op::kRepeats ? r : r % kRowsAtOnce;
      V* const group = Op::kRepeats || r < kRowsAtOnce ? line : room->at;
      if (group != line && (place == kRowsAtOnce - 1 || r == count - 1))
        end_group(op, rows[r], n, place > 0 ? group : nullptr, line);
      else if (place == 0)
        join_group<1, false>(op, rows + r, 1, 0, n, end, group);
      else
        join_group<1, true>(op, rows + r, 1, 0, n, end, group);
    }
  }

  /// Joins the line with what a row ends: a group, if there are rows before it.
  template <class Load>
  void end_group(const Load& op, const T* row, int64_t n, const V* group, V* line) const {
    for (int64_t i = 0; i < n; i += kLanes<V>) {
      auto v = load_part(op, row + i, n - i, end);
      if (group) v = Op::join(load_vector<Vector<V>>(group + i), v);
      join_into(line + i, v);
    }
  }

  static void join_into(V* to, const Vector<V>& v) {
    store_vector(to, Op::join(load_vector<Vector<V>>(to), v));
  }

  /// Joins `count` rows, `pitch` apart, and the line where there is `more` in it.
  void join_some(const AheadOf<Op>& op, const T* first, int64_t pitch, int64_t count, bool more,
                 int64_t n, V* line) const {
    constexpr int64_t kStep = kLanes<V>;
    int64_t i = 0;
    for (; i + 4 * kStep <= n; i += 4 * kStep)
      join_block<4>(op, first + i, pitch, count, more, line + i);
    for (; i + 2 * kStep <= n; i += 2 * kStep)
      join_block<2>(op, first + i, pitch, count, more, line + i);
    for (; i < n; i += kStep) {
      const int64_t left = std::min(kStep, n - i);
      const auto tap = [&](int64_t r) { return load_part(op, first + r * pitch + i, left, end); };
      auto v = more ? load_vector<Vector<V>>(line + i) : all_lanes(Op::none());
      for (int64_t r = 0; r < count;) {
        auto group = tap(r);
        for (const int64_t last = std::min(r + kRowsAtOnce, count); ++r < last;)
          group = Op::join(group, tap(r));
        v = Op::join(v, group);
      }
      store_vector(line + i, v);
    }
  }

  /// The same of kColumns vectors.
  template <int64_t kColumns>
  void join_block(const AheadOf<Op>& op, const T* row, int64_t pitch, int64_t count, bool more,
                  V* line) const {
    Vector<V> joined[kColumns], group[kColumns];
    const auto each = [](const auto& body) __attribute__((always_inline)) {
#pragma GCC unroll 4
      for (int64_t c = 0; c < kColumns; ++c) body(c);
    };
    const auto tap = [&](int64_t c) { return op.load(row + c * kLanes<V>); };
    each([&](int64_t c) {
      joined[c] = more ? load_vector<Vector<V>>(line + c * kLanes<V>) : all_lanes(Op::none());
    });
    for (; count > 0; count -= kRowsAtOnce) {
      each([&](int64_t c) { group[c] = tap(c); });
      row += pitch;
      for (int64_t r = 1; r < std::min(kRowsAtOnce, count); ++r, row += pitch)
        each([&](int64_t c) { group[c] = Op::join(group[c], tap(c)); });
      each([&](int64_t c) { joined[c] = Op::join(joined[c], group[c]); });
    }
    each([&](int64_t c) { store_vector(line + c * kLanes<V>, joined[c]); });
  }

  void put(const Task& task, const T* from) const {
    if (plan.y.batch[1] == 1)
      std::memcpy(y + task.y, from, size_t(task.n) * sizeof(T));
    else
      for (int64_t i = 0; i < task.n; ++i) y[task.y + i * plan.y.batch[1]] = from[i];
  }

  const bool fetches_;  // from memory: what a cache holds arrives without
  const bool rows_first_;
};

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
