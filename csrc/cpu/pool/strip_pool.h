// What the ways to pool by strips without indices have in common: room for joined values, where
// outputs go, how a line of columns is joined along the rows.
#pragma once

#include "cpu/pool/apart.h"
#include "cpu/pool/strip_sink.h"
#include "cpu/pool/value_pool.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

template <class Op, class Finish>
class StripPool : protected ValuePool<Op, Finish> {
 public:
  using Base = ValuePool<Op, Finish>;
  using typename Base::T, typename Base::V;

  [[gnu::noinline]] StripPool(const Base& base, const StripShape& shape)
      : Base(base),
        shape_(shape),
        fetches_(is_read_ahead(plan)),
        sink_(y, plan.y, plan, shape, is_streamed(plan.outputs() * int64_t(sizeof(T)))) {}

 protected:
  using Base::finish, Base::op, Base::plan, Base::x, Base::y, Base::end;
  /// Joined values are outputs once they are stored as elements, or even as they are.
  static constexpr bool kStores = std::is_same_v<Finish, MaxFinish>;
  static constexpr bool kDirect = kStores && std::is_floating_point_v<T>;

  /// Taps that count along all axes but the last one, of the rows that rows_ has found.
  double counted_rows() const {
    return plan.include_padding ? rows_.inside() : double(rows_.count);
  }

  /// Outputs of all lines; neighbouring lines whose windows count alike at once.
  [[gnu::noinline]] void finish_lines(const Strip& s, const double* counts, T* to) {
    const auto& [task, c, lines] = s;
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
    join_rows_apart(op, rows.at, rows.count, c.low, c.high - c.low, pitch, line);
  }

  const StripShape shape_;
  const bool fetches_;
  StripRows<T> rows_;
  StripSink<T> sink_;
  StripRoom<V> room_;
};

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
