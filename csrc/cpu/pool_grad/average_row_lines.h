// How the gradient of average pooling by rows is cut into tasks, and what tasks of the same rows or
// columns have in common: the windows over them, and what these are divided by.
#pragma once

#include <vector>

#include "cpu/memory/line_stream.h"
#include "cpu/memory/tuning.h"
#include "cpu/pool_grad/blocks.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

/// Packed rows, of windows that advance by 1 along them, or of two columns that advance by 2.
template <class T>
struct AverageRowShape {
  static constexpr int64_t kStep = kLanes<Acc<T>>;
  static constexpr int64_t kColumns = LineStream::kShort / int64_t(sizeof(T));  // of a task
  static constexpr int64_t kElements = tuning::pool_grad::kRowElements;
  static constexpr int64_t kMostWindow = 16, kMostReach = 64;
  static constexpr int64_t kMostLate = tuning::pool_grad::kMostLate;
  static constexpr int64_t kRoom = kColumns + kMostReach + 2 * kStep, kLineRoom = 4 * kRoom;

  const PoolGradPlan& plan;
  const PoolAxis &y, &x;
  int64_t reach, columns, height;  // windows before an element's own; of a task
  int64_t pitch, late;             // of lines; rows between joining rows and columns
  bool divides, is_streamed;
  bool has_thirds;  // windows of 3 x 3 on planes without gaps, each element below the middle of one

  static bool fits(const PoolGradPlan& plan) {
    const PoolPlan& f = plan.forward;
    const PoolAxis &z = f.axis[0], &y = f.axis[1], &x = f.axis[2];
    const bool is_pair = x.stride == 2 && x.window == 2 && x.dilation == 1;
    return z.in * z.out * z.window == 1 && z.start == 0 && f.y.space[2] == 1 &&
           plan.result.space[2] == 1 && x.out >= kStep && y.window <= kMostWindow &&
           x.window <= kMostWindow && (is_pair || x.stride == 1) &&
           (x.window - 1) * x.dilation <= kMostReach;
  }

  explicit AverageRowShape(const PoolGradPlan& p)
      : plan(p),
        y(p.forward.axis[1]),
        x(p.forward.axis[2]),
        reach(x.stride == 1 ? (x.window - 1) * x.dilation : 0),
        columns(even_part(x.in, kColumns)),
        height(even_part(y.in, std::max<int64_t>(1, kElements / columns))),
        pitch((columns + reach + 2 * kStep) / kStep * kStep),
        late(std::min(kMostLate, kLineRoom / pitch - 1)),
        divides(BlockShape::taps_of_phase(p.forward) == 1),
        is_streamed(cudml::cpu::is_streamed(p.forward.batch[0] * p.forward.batch[1] * y.in * x.in *
                                            int64_t(sizeof(T)))),
        has_thirds(is_third(x) && is_third(y) && columns == x.in && p.forward.y.space[1] == x.in &&
                   p.result.space[1] == x.in) {}

  int64_t chunks() const { return (x.in + columns - 1) / columns; }

  /// Of each chunk of columns.
  TaskSpace tasks() const {
    TaskSpace space = plane_tasks(plan, false, 1);
    space.dim[kSpaceDim + 1].size = (y.in + height - 1) / height;
    space.dim[kSpaceDim + 2].size = 1;
    return space;
  }

  /// Elements of whole rows that are joined at a time, where three columns are joined in registers.
  int64_t segment() const { return std::max<int64_t>(1, 16 * kStep / x.in) * x.in; }

 private:
  static bool is_third(const PoolAxis& a) {
    return a.window == 3 && a.stride == 1 && a.dilation == 1 && a.start == 1 && a.out == a.in;
  }
};

/// What tasks have in common, and room for one of them. Lines begin with window `low`, the first
/// that any element of the task's columns needs.
template <class T>
struct AverageRowLines {
  using Shape = AverageRowShape<T>;
  using Sum = Acc<T>;
  /// A type of this level alone, and so are the functions that a vector of it brings along.
  struct RowCovers : Covers {};

  int64_t chunk = -1, first, n, low, from, to;  // windows [from, to) of the line exist
  int64_t band = -1, first_row;
  std::vector<RowCovers> rows;   // windows over each row of the band
  std::vector<int64_t> counted;  // by rows of windows, from first_row on
  bool is_ready[Shape::kMostWindow + 1], counts_alike, rows_alike;
  Sum counts[Shape::kRoom], factors[Shape::kMostWindow + 1][Shape::kRoom];
  alignas(64) Sum line[Shape::kLineRoom];
  alignas(64) T rest[Shape::kStep];
  alignas(64) Sum numbers[Shape::kRoom];
  LineStream out;

  /// Divisions take longer than a short row: planes have their bands in common, and all tasks of a
  /// chunk of columns follow each other.
  void prepare(const Shape& shape, int64_t columns, const Task& task) {
    if (columns != chunk) prepare_columns(shape, columns);
    if (task.space(1) != band) prepare_rows(shape, task.space(1));
  }

  /// What a row of windows of `count` counted rows is divided by, or multiplied with where windows
  /// overlap: that is as good once there is a sum to round.
  const Sum* factors_of(const Shape& shape, int64_t count) {
    Sum* const own = factors[count];
    if (is_ready[count]) return own;
    is_ready[count] = true;
    for (int64_t i = from; i < to; ++i) {
      const Sum divisor = Sum(count) * counts[i];
      own[i] = shape.divides ? divisor : 1 / divisor;
    }
    return own;
  }
  /// The same of row b of windows.
  const Sum* factors_at(const Shape& shape, int64_t b) {
    return factors_of(shape, counted[size_t(b - first_row)]);
  }

 private:
  void prepare_rows(const Shape& shape, int64_t which) {
    const int64_t top = which * shape.height, count = std::min(shape.height, shape.y.in - top);
    band = which;
    rows.resize(size_t(count));
    for (int64_t i = 0; i < count; ++i) rows[size_t(i)] = {covers_of(shape.y, top + i)};
    const Reach reach = reach_of(shape.y, top, top + count - 1);
    first_row = reach.first;
    counted.clear();
    for (int64_t b = first_row; b <= reach.last; ++b)
      counted.push_back(counted_at(shape.plan.forward, 1, b));
    rows_alike = std::all_of(counted.begin(), counted.end(),
                             [&](int64_t c) { return c == counted.front(); });
  }

  void prepare_columns(const Shape& shape, int64_t which) {
    const PoolAxis& x = shape.x;
    chunk = which;
    first = chunk * shape.columns;
    n = std::min(shape.columns, x.in - first);
    const int64_t begin = first + x.start, last = begin + n - 1;
    low = begin / x.stride - shape.reach;
    from = std::max<int64_t>(0, -low);
    to = std::max(from, std::min(x.out, last / x.stride + 1) - low);
    for (int64_t i = from; i < to; ++i) counts[i] = Sum(counted_at(shape.plan.forward, 2, low + i));
    counts_alike =
        std::all_of(counts + from, counts + to, [&](Sum count) { return count == counts[from]; });
    for (int64_t i = 0; shape.has_thirds && i < shape.segment(); ++i)
      numbers[i] = same_bits<Sum>(IntegerLike<Sum>(i % x.in - x.start));
    std::fill_n(is_ready, Shape::kMostWindow + 1, false);
    std::fill_n(line, Shape::kLineRoom, Sum{0});
  }
};

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
