// Gradient of average pooling by rows: a row of elements joins the rows of windows that cover it,
// divided by what they count, then the windows' columns.
#pragma once

#include <memory>

#include "cpu/memory/tuning.h"
#include "cpu/pool/thirds.h"
#include "cpu/pool_grad/average_pairs.h"
#include "cpu/pool_grad/average_row_lines.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

/// Gradients, each times the same factor.
template <class T>
struct SharesOf : SumOf<T> {
  Acc<T> factor = 1;

  Vector<Acc<T>> load(const T* p) const { return load_floats(p) * factor; }
};

/// Hands out what windows along a line have to elements [i, end) of a task, in whole vectors; the
/// first element of the task is number `first` of its row.
template <class T>
struct AverageColumns {
  using Sum = Acc<T>;
  using Sums = Vector<Sum>;
  static constexpr int64_t kStep = kLanes<Sum>;
  const PoolAxis& x;

  void join(const Sum* line, int64_t first, int64_t i, int64_t end, T* to) const {
    if (x.stride == 2) return hand_out_pairs(line, first, i, end, to);
    if (x.window == 3 && x.dilation == 1) return add<3>(line, i, end, 1, to);
    add<0>(line, i, end, x.dilation, to);
  }

 private:
  void hand_out_pairs(const Sum* line, int64_t first, int64_t i, int64_t end, T* to) const {
    const auto half =
        (ascending<IntegerLike<Sum>>() + IntegerLike<Sum>((first + x.start) % 2)) >> 1;
    for (; i < end; i += kStep, to += kStep)
      store_floats(to, shuffled(load_vector<Sums>(line + i / 2), half));
  }

  /// In the order of the windows; kWindow is their length, or 0 for any.
  template <int kWindow>
  void add(const Sum* line, int64_t i, int64_t end, int64_t dilation, T* to) const {
    const int64_t window = kWindow ? kWindow : x.window;
    for (; i < end; i += kStep, to += kStep) {
      auto sum = load_vector<Sums>(line + i);
      for (int64_t k = 1; k < window; ++k) sum += load_vector<Sums>(line + i + k * dilation);
      store_floats(to, sum);
    }
  }
};

template <class T>
class AverageRows {
  using Sum = Acc<T>;
  using Sums = Vector<Sum>;
  using Shape = AverageRowShape<T>;
  using Lines = AverageRowLines<T>;
  static constexpr int64_t kStep = Shape::kStep;
  static constexpr int64_t kAhead = tuning::pool_grad::kRowAheadBytes;

 public:
  static bool fits(const PoolGradPlan& plan) { return Shape::fits(plan); }

  AverageRows(const PoolGradPlan& plan, const void* grad, void* result)
      : plan_(plan),
        shape_(plan),
        y_(shape_.y),
        x_(shape_.x),
        grad_(static_cast<const T*>(grad)),
        result_(static_cast<T*>(result)),
        end_(end_of(plan.forward, grad_, plan.forward.y, &PoolOuter::y, &PoolAxis::out)) {}

  void run() const {
    const TaskSpace space = shape_.tasks();
    const int64_t tasks = space.count();
    parallel_for(tasks * shape_.chunks(), plan_.compulsory_bytes(),
                 [&](int64_t begin, int64_t end) {
                   const auto lines = std::make_unique_for_overwrite<Lines>();
                   for (int64_t i = begin, stop; i < end; i = stop) {
                     const int64_t chunk = i / tasks, before = chunk * tasks;
                     stop = std::min(end, before + tasks);
                     for_tasks(space, i - before, stop - before,
                               [&](const Task& task, int64_t) { block(task, chunk, *lines); });
                   }
                 });
  }

 private:
  /// Columns are joined some rows later than rows, when the stores of their line have left the
  /// processor: loads at other offsets wait for that.
  void block(const Task& task, int64_t chunk, Lines& s) const {
    s.prepare(shape_, chunk, task);
    if (shape_.has_thirds && s.counts_alike && s.rows_alike) return join_neighbours(task, s);
    const int64_t top = task.space(1) * shape_.height,
                  bottom = std::min(top + shape_.height, y_.in);
    const Sum* lines[Shape::kMostLate + 1];
    Covers before{0, -1, 1};
    for (int64_t y = top, slot = 0; y < bottom + shape_.late; ++y) {
      if (y < bottom) {
        const Covers& rows = s.rows[size_t(y - top)];
        if (y == top || rows.first != before.first || rows.last != before.last) {
          slot = slot == shape_.late ? 0 : slot + 1;
          join_rows(grad_ + task.y + s.low, rows, s, s.line + slot * shape_.pitch);
          before = rows;
        }
        lines[y & Shape::kMostLate] = s.line + slot * shape_.pitch;
      }
      const int64_t late = y - shape_.late;
      if (late >= top) put(task, late, lines[late & Shape::kMostLate], s);
    }
  }

  /// Room for kColumns elements that belong at dst.
  T* room_at(T* dst, Lines& s) const {
    if (!shape_.is_streamed) return reinterpret_cast<T*>(s.line + Shape::kLineRoom / 2);
    s.out.seek(dst);
    return reinterpret_cast<T*>(s.out.reserve());
  }
  void put_room(T* dst, const T* room, int64_t n, Lines& s) const {
    if (shape_.is_streamed)
      s.out.commit(n * int64_t(sizeof(T)));
    else
      copy_bytes(dst, room, n * int64_t(sizeof(T)));
  }

  /// Rows that three rows of windows cover follow each other: columns are joined in registers.
  void join_neighbours(const Task& task, Lines& s) const {
    const int64_t top = task.space(1) * shape_.height, n = int64_t(s.rows.size());
    const int64_t most = std::max<int64_t>(1, LineStream::kShort / int64_t(sizeof(T)) / x_.in);
    for (int64_t i = 0, lines; i < n; i += lines) {
      const Covers& rows = s.rows[size_t(i)];
      for (lines = 1; lines < most && i + lines < n;) {
        const Covers& next = s.rows[size_t(i + lines)];
        if (rows.last - rows.first < 2 || next.last - next.first < 2) break;
        ++lines;
      }
      if (rows.last - rows.first < 2) {
        join_rows(grad_ + task.y + s.low, rows, s, s.line);
        put(task, top + i, s.line, s);
      } else {
        join_lines(task, top + i, lines, rows, s);
      }
    }
  }

  void join_lines(const Task& task, int64_t y, int64_t lines, const Covers& rows, Lines& s) const {
    const int64_t n = lines * x_.in;
    const T* src[3];
    for (int64_t b = 0; b < 3; ++b) src[b] = grad_ + task.y + (rows.first + b) * x_.in;
    SharesOf<T> op;
    op.factor = s.factors_at(shape_, rows.first)[s.from];
    T* const dst = result_ + task.x + y * x_.in;
    T* const to = room_at(dst, s);
    const T* const next = src[2] + kAhead / int64_t(sizeof(T));
    const LineTaps<SharesOf<T>> taps{src, 3, n, x_.in, shape_.segment(), s.numbers, end_};
    join_thirds<3>(op, taps, [=](int64_t at, int64_t, const Sums& v) {
      store_floats(to + at, v);
      __builtin_prefetch(next + at, 0, 2);
    });
    put_room(dst, to, n, s);
  }

  void put(const Task& task, int64_t y, const Sum* line, Lines& s) const {
    T* const dst = result_ + task.x + y * plan_.result.space[1] + s.first;
    const AverageColumns<T> columns{x_};
    if (!shape_.is_streamed) {
      const int64_t whole = s.n / kStep * kStep;
      columns.join(line, s.first, 0, whole, dst);
      columns.join(line, s.first, whole, s.n, s.rest);
      return copy_short(reinterpret_cast<char*>(dst + whole), reinterpret_cast<const char*>(s.rest),
                        (s.n - whole) * int64_t(sizeof(T)));
    }
    s.out.seek(dst);
    columns.join(line, s.first, 0, s.n, reinterpret_cast<T*>(s.out.reserve()));
    s.out.commit(s.n * int64_t(sizeof(T)));
  }

  /// The line of what the windows of all these rows hand out to each of their elements.
  void join_rows(const T* grad, const Covers& rows, Lines& s, Sum* line) const {
    const T* src[Shape::kMostWindow];
    const Sum* factors[Shape::kMostWindow];
    int64_t count = 0;
    for (int64_t b = rows.first; b <= rows.last; b += rows.step) {
      src[count] = grad + b * plan_.forward.y.space[1];
      factors[count++] = s.factors_at(shape_, b);
    }
    const char* const ahead =
        count ? reinterpret_cast<const char*>(src[count - 1]) + kAhead : nullptr;
    if (count == 0) {
      std::fill(line + s.from, line + s.to, Sum{0});
    } else if (shape_.divides) {
      join(s, ahead, line, [a = src[0], by = factors[0]](int64_t i, auto load) {
        return load(a + i) / load(by + i);
      });
    } else if (count == 3 && factors[0] == factors[1] && factors[1] == factors[2]) {
      join(s, ahead, line,
           [a = src[0], b = src[1], c = src[2], by = factors[0]](int64_t i, auto load) {
             const auto factor = load(by + i);  // no sum of gradients that overflows before it
             return load(a + i) * factor + load(b + i) * factor + load(c + i) * factor;
           });
    } else {
      join(s, ahead, line, [&](int64_t i, auto load) {
        auto sum = load(src[0] + i) * load(factors[0] + i);
        for (int64_t k = 1; k < count; ++k) sum += load(src[k] + i) * load(factors[k] + i);
        return sum;
      });
    }
  }

  /// line[i] = value(i, load) where windows exist, in vectors of which the last may overlap.
  template <class Value>
  static void join(const Lines& s, const char* ahead, Sum* line, const Value& value) {
    const auto whole = [](const auto* p) { return load_floats(p); };
    int64_t i = s.from;
    for (; i + kStep <= s.to; i += kStep) {
      for (int64_t j = 0; j < kStep * int64_t(sizeof(T)); j += 64)
        __builtin_prefetch(ahead + i * int64_t(sizeof(T)) + j, 0, 2);
      store_vector(line + i, value(i, whole));
    }
    if (i == s.to) return;
    if (s.to - s.from >= kStep)
      return store_vector(line + s.to - kStep, value(s.to - kStep, whole));
    for (; i < s.to; ++i) line[i] = value(i, [](const auto* p) { return load_as_acc(*p); });
  }

  const PoolGradPlan& plan_;
  const Shape shape_;
  const PoolAxis &y_, &x_;
  const T* grad_;
  T* result_;
  const T* const end_;  // of gradients
};

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
