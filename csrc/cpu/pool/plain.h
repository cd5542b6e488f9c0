// One window after the other, without indices; takes any plan.
#pragma once

#include "cpu/pool/apart.h"
#include "cpu/pool/strip_shape.h"
#include "cpu/pool/value_pool.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

/// One window at a time, vectors along its rows; takes any plan. Sums have the order of the other
/// paths that take such windows.
template <class Op, class Finish>
class WindowPool : ValuePool<Op, Finish> {
  using Base = ValuePool<Op, Finish>;
  using Base::end, Base::op, Base::plan, Base::x, Base::y;
  using typename Base::T, typename Base::V;

 public:
  using typename Base::Total;
  static constexpr Lane kLane = Lane::none;
  static constexpr int64_t kChunk = 1;
  static constexpr bool kHasOrder = !Op::kRepeats;
  explicit WindowPool(const Base& base) : Base(base) {
    if (joins_rows_first(plan))
      order_ = Order::rows_first;
    else if (plan.x.space[2] != 1)
      order_ = Order::in_groups;
  }
  static Total combine(Total a, Total b) { return Op::join(a, b); }

  void whole(const Task& task) const {
    const Box box = box_of(plan, task, 3);
    if (!has(Order::along) && box.taps > 0 && (has(Order::rows_first) || box.taps <= kChain))
      return put_short(task, box);
    Total total = Op::none();
    if (box.taps > 0) piece(task, box, 0, box.taps, &total);
    store(task, box, &total);
  }

  void piece(const Task& task, const Box& box, int64_t f, int64_t last, Total* total) const {
    if (has(Order::in_groups)) return piece_in_groups(x + task.x, box, f, last, total);
    T room[kRowElements];
    TapCursor at(box, f);
    Pace pace;
    for (bool first = true; f < last; first = false) {
      const int64_t n = std::min({kRowElements, last - f, at.left_in_row()});
      const T* row = x + task.x + at.offset();
      if (const int64_t step = box.x_step[2]; step != 1 && n > 1) {
        copy_apart(row, step, n, room);
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

 private:
  /// Along a row of taps as many at once as vectors have lanes; of columns that stand apart in
  /// groups, as side by side with other planes; or rows first, as in strips.
  enum class Order { along, in_groups, rows_first };
  bool has(Order order) const { return order == (Op::kRepeats ? Order::along : order_); }

  /// Of sums that stay in the type that values are joined in. Not inline: rows of taps are usual.
  [[gnu::noinline]] void put_short(const Task& task, const Box& box) const {
    const T* const plane = x + task.x;
    TapCursor at(box, 0);
    const V sum =
        has(Order::rows_first) ? by_columns(plane, box) : in_groups(plane, box, at, box.taps);
    Base::put(task.y, sum, box, task.x);
  }

  [[gnu::noinline]] void piece_in_groups(const T* plane, const Box& box, int64_t f, int64_t last,
                                         Total* total) const {
    TapCursor at(box, f);
    Pace pace;
    for (bool first = true; f < last; first = false) {
      const int64_t n = std::min(kChain, last - f);
      const Total joined = in_groups(plane, box, at, n);
      *total = first ? joined : Op::join(*total, joined);
      f += n;
      pace.add(n);
    }
  }

  V in_groups(const T* plane, const Box& box, TapCursor& at, int64_t n) const {
    if constexpr (!Op::kRepeats && std::is_same_v<T, V>)
      if (op.has_taps()) return taps_in_groups(plane, at, box.x_step[2], n);
    return values_in_groups(plane, at, box.x_step[2], n);
  }

  /// n taps, read one by one.
  V taps_in_groups(const T* plane, TapCursor& at, int64_t step, int64_t n) const {
    V joined = Op::none();
    for (int64_t count; n > 0; n -= count) {
      const T* p = plane + at.offset();
      count = std::min(n, at.left_in_row()) / kRowsAtOnce * kRowsAtOnce;
      if (count == 0) {
        count = std::min(n, kRowsAtOnce);
        joined = Op::join(joined, group_of_rows(plane, at, count));
        continue;
      }
      for (int64_t i = 0; i < count; i += kRowsAtOnce, p += kRowsAtOnce * step) {
        V group = op.tap(*p);
#pragma GCC unroll 8
        for (int64_t k = 1; k < kRowsAtOnce; ++k) group = Op::join(group, op.tap(p[k * step]));
        joined = Op::join(joined, group);
      }
      at.advance(count);
    }
    return joined;
  }

  /// `count` taps that run on into other rows.
  V group_of_rows(const T* plane, TapCursor& at, int64_t count) const {
    V group = op.tap(plane[at.offset()]);
    for (at.advance(1); count > 1; --count, at.advance(1))
      group = Op::join(group, op.tap(plane[at.offset()]));
    return group;
  }

  /// n taps, put together first.
  [[gnu::noinline]] V values_in_groups(const T* plane, TapCursor& at, int64_t step,
                                       int64_t n) const {
    const Room<Elements<T, size_t(kChain + kSlack)>> tap_room;
    const Room<Elements<V, size_t(kChain + kSlack)>> value_room;
    T* const taps = tap_room->at;
    V* const values = value_room->at;
    for (int64_t i = 0, count; i < n; i += count) {
      count = std::min(n - i, at.left_in_row());
      copy_apart(plane + at.offset(), step, count, taps + i);
      at.advance(count);
    }
    int64_t i = 0;
    do {
      store_vector(values + i, op.load(taps + i));
    } while ((i += kLanes<V>) < n);
    return join_in_groups<Op>(values, n);
  }

  [[gnu::noinline]] V by_columns(const T* plane, const Box& box) const {
    Box first = box;
    first.count[2] = 1;
    first.taps = box.count[0] * box.count[1];
    const RowList<T> rows(plane, first, 0, first.taps);
    const int64_t columns = box.count[2];
    alignas(64) V line[StripRoom<V>::kValues];
    if (box.x_step[2] == 1)
      join_rows(op, rows.at, first.taps, 0, columns, end, line);
    else
      join_rows_apart(op, rows.at, first.taps, 0, columns, box.x_step[2], line);
    V joined = line[0];
#pragma GCC unroll 8
    for (int64_t i = 1; i < columns; ++i) joined = Op::join(joined, line[i]);
    return joined;
  }

  Order order_ = Order::along;
};

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
