// Gradient of average pooling for planes that lie side by side: an element of each at once, which
// joins the windows over it where their gradients stand.
#pragma once

#include <bit>
#include <memory>
#include <vector>

#include "cpu/memory/line_stream.h"
#include "cpu/memory/tuning.h"
#include "cpu/pool_grad/blocks.h"
#include "cpu/simd/convert.h"
#include "cpu/simd/lanes.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

/// Windows over an element of neighbouring planes: columns of them, of as many rows each.
template <class T>
struct WindowTerms {
  using Sum = Acc<T>;
  using Sums = Vector<Sum>;
  static constexpr int64_t kStep = kLanes<Sum>;

  std::vector<const T*> grad;
  std::vector<Sum> factor;
  int64_t rows = 0, columns = 0;
  bool has_zero = false;  // is added to +0, too, which makes +0 of -0
  bool divides = false;   // by factors, rather than multiplies

  // The same for all elements: what joins them, and how far planes are apart in the gradients.
  const bool is_blocked;
  const int64_t step;

  WindowTerms(bool blocked, int64_t planes) : is_blocked(blocked), step(planes) {}

  /// Writes the element of n planes.
  void hand_out(int64_t n, T* to) const {
    if (grad.empty()) return void(std::fill_n(to, n, T{}));
    if (step == 1 && n < kStep && std::is_same_v<Sum, float>) return join_part(n, to);
    if (step != 1 || n < kStep) return join_each(n, to);
    if (!is_blocked) return join<0, 0, true>(n, to);
    if (divides) return join<1, 1, true>(n, to);
    if (grad.size() == 1) return join<1, 1>(n, to);
    if (grad.size() == 2) return join<2, 1>(n, to);
    if (grad.size() == 4) return join<4, 1>(n, to);
    if (grad.size() == 9) return join<9, 1>(n, to);
    join<0, 0>(n, to);
  }

 private:
  /// The rows of each column first. kRows and kColumns are their numbers, or 0 for any; the last
  /// vector may overlap the one before.
  template <int kRows, int kColumns, bool kDivides = false>
  [[gnu::noinline]] void join(int64_t n, T* to) const {
    const T* few[kRows ? kRows * kColumns : 1];
    Sum factors[kRows ? kRows * kColumns : 1];
    for (int k = 0; k < kRows * kColumns; ++k) {
      few[k] = grad[size_t(k)];
      factors[k] = factor[size_t(k)];
    }
    const T* const* const from = kRows ? few : grad.data();
    const Sum* const by = kRows ? factors : factor.data();
    const int64_t height = kRows ? kRows : rows, width = kColumns ? kColumns : columns;
    const auto write = [&](int64_t i, bool adds_zero) __attribute__((always_inline)) {
      Sums sum{};
      for (int64_t k = 0, c = 0; c < width; ++c) {
        Sums column{};
        for (int64_t r = 0; r < height; ++r, ++k) {
          const auto g = load_floats(from[k] + i);
          column = joined(column, kDivides ? g / by[k] : g * by[k], r == 0);
        }
        sum = joined(sum, column, c == 0);
      }
      store_floats(to + i, adds_zero ? sum + Sums{} : sum);
    };
    // Two loops, neither of which asks again for each vector.
    int64_t i = 0;
    if (has_zero)
      for (; i <= n - kStep; i += kStep) write(i, true);
    else
      for (; i <= n - kStep; i += kStep) write(i, false);
    if (i < n) write(n - kStep, has_zero);
  }

  /// The same one by one, of planes that are apart in the gradients, or few and of float64.
  [[gnu::noinline]] void join_each(int64_t n, T* to) const {
    for (int64_t i = 0; i < n; ++i)
      to[i] = store_as<T>(sum_of<Sum>([&](const T* row) { return load_as_acc(row[i * step]); }));
  }

  /// The same of planes that fill a part of a vector.
  [[gnu::noinline]] void join_part(int64_t n, T* to) const {
    if constexpr (std::is_same_v<Sum, float>) {
      const Partial part{n};
      store_narrow(to, sum_of<Sums>([&](const T* row) { return load_wide(row, part); }), part);
    }
  }

  template <class V, class Load>
  V sum_of(const Load& load) const {
    V sum{};
    for (int64_t k = 0, c = 0; c < columns; ++c) {
      V column{};
      for (int64_t r = 0; r < rows; ++r, ++k) {
        const V g = load(grad[size_t(k)]);
        const Sum by = factor[size_t(k)];
        column = joined(column, V(divides ? g / by : g * by), r == 0);
      }
      sum = joined(sum, column, c == 0);
    }
    return has_zero ? V(sum + V{}) : sum;
  }

  template <class V>
  static V joined(const V& sum, const V& more, bool is_first) {
    return is_first ? more : sum + more;
  }
};

template <class T>
class AverageSideBySide {
  using Sum = Acc<T>;
  using Terms = WindowTerms<T>;
  static constexpr int64_t kMostLanes = LineStream::kShort / int64_t(sizeof(T));
  static constexpr int64_t kMostJoined = tuning::memory::kRoomBytes / int64_t(sizeof(T));
  static constexpr int64_t kMostRows = tuning::pool_grad::kRowsAlike;
  static constexpr int64_t kPixels = tuning::pool_grad::kPixels;

 public:
  AverageSideBySide(const PoolGradPlan& plan, const void* grad, void* result)
      : plan_(plan),
        f_(plan.forward),
        y_(f_.axis[1]),
        x_(f_.axis[2]),
        grad_(static_cast<const T*>(grad)),
        result_(static_cast<T*>(result)),
        is_blocked_(BlockShape::fits(plan)),
        divides_(!is_blocked_ || BlockShape::taps_of_phase(f_) == 1),
        is_streamed_(is_streamed(f_.batch[0] * f_.batch[1] * f_.axis[0].in * f_.axis[1].in * x_.in *
                                 int64_t(sizeof(T)))),
        is_apart_(is_streamed_ && is_apart(x_)),
        rows_(is_apart_ && is_apart(y_) ? std::min(y_.stride, kMostRows) : 1),
        turns_(is_blocked_ && !is_apart(x_) ? x_.stride : 1) {}

  void run() const {
    TaskSpace space = plane_tasks(plan_, true, kMostLanes);
    space.dim[kSpaceDim] = {f_.axis[0].in, plan_.result.space[0], 0, 0, 0};
    space.dim[kSpaceDim + 1].size = (y_.in + lead() + rows_ - 1) / rows_;
    space.dim[kSpaceDim + 2].size = (x_.in + kPixels - 1) / kPixels;
    parallel_for(space.count(), plan_.compulsory_bytes(), [&](int64_t begin, int64_t end) {
      Scratch s(*this);
      for_tasks(space, begin, end, [&](const Task& task, int64_t) { rows(task, s); });
    });
  }

 private:
  /// A row of windows: its offset in the gradients, and how many rows of a window count.
  struct WindowRow {
    int64_t offset, counted;
  };

  /// Elements that follow each other along an axis under the same windows, and how many of these
  /// there would be were there all.
  struct Run {
    int64_t first, step, windows, taps, elements;
    bool follows = false;  // its windows are the next ones after those of the run a stride before
  };

  struct Scratch {
    int64_t piece = -1, first_window = 0;
    std::vector<Run> columns;      // all of the piece
    std::vector<int64_t> counted;  // by columns of windows, from first_window on
    std::vector<WindowRow> rows;
    int64_t taps_above = 0;             // rows of windows over such elements, were there all
    std::vector<Terms> terms;           // of runs that follow each other, by turns
    const std::unique_ptr<T[]> joined;  // elements of a batch
    Pace pace;
    LineStream out;

    explicit Scratch(const AverageSideBySide& all)
        : terms(size_t(all.turns_), Terms(all.is_blocked_, all.f_.y.batch[1])),
          joined(all.is_apart_ ? new T[size_t(kMostJoined)] : nullptr) {}
  };

  /// Divisions take longer than an element of few planes: rows have their pieces in common.
  void prepare(int64_t piece, Scratch& s) const {
    const int64_t from = piece * kPixels, to = std::min(from + kPixels, x_.in);
    const Reach reach = reach_of(x_, from, to - 1);
    s.piece = piece;
    s.first_window = reach.first;
    s.columns.clear();
    for (int64_t i = from; i < to; i += s.columns.back().elements)
      s.columns.push_back(run_from(x_, i, to));
    s.counted.clear();
    for (int64_t o = reach.first; o <= reach.last; ++o) s.counted.push_back(counted_at(f_, 2, o));
    for (size_t k = size_t(turns_); k < s.columns.size(); ++k)
      s.columns[k].follows = follows(s, s.columns[k - size_t(turns_)], s.columns[k]);
  }

  /// Whether windows count as much as those one place before them.
  static bool follows(const Scratch& s, const Run& a, const Run& b) {
    bool are_alike =
        b.first == a.first + 1 && b.step == a.step && b.windows == a.windows && b.taps == a.taps;
    for (int64_t i = 0; are_alike && i < a.windows; ++i) {
      const auto at = size_t(a.first + i * a.step - s.first_window);
      are_alike = s.counted[at] == s.counted[at + 1];
    }
    return are_alike;
  }

  static Run run_from(const PoolAxis& a, int64_t element, int64_t end) {
    const auto at = [&](int64_t i) -> Run {
      const Covers c = covers_of(a, i);
      const int64_t windows = c.last < c.first ? 0 : (c.last - c.first) / c.step + 1;
      return {c.first, c.step, windows, taps_over(a, i), 1};
    };
    const auto are_alike = [](const Run& a, const Run& b) {
      return a.first == b.first && a.step == b.step && a.windows == b.windows && a.taps == b.taps;
    };
    Run run = at(element);
    while (element + run.elements < end && are_alike(run, at(element + run.elements)))
      ++run.elements;
    return run;
  }

  void find_rows(const Task& task, const Run& rows, Scratch& s) const {
    s.rows.clear();
    s.taps_above = taps_over(f_.axis[0], task.space(0)) * rows.taps;
    const Covers above = covers_of(f_.axis[0], task.space(0));
    for (int64_t a = above.first; a <= above.last; a += above.step)
      for (int64_t i = 0, b = rows.first; i < rows.windows; ++i, b += rows.step)
        s.rows.push_back(
            {a * f_.y.space[0] + b * f_.y.space[1], counted_at(f_, 0, a) * counted_at(f_, 1, b)});
  }

  /// Elements before the first of a window, with which rows of tasks begin.
  int64_t lead() const { return y_.start % rows_; }

  void rows(const Task& task, Scratch& s) const {
    if (task.space(2) != s.piece) prepare(task.space(2), s);
    const int64_t begin = task.space(1) * rows_ - lead(), end = std::min(begin + rows_, y_.in);
    T* const dst = result_ + task.x + task.space(2) * kPixels * plan_.result.space[2];
    for (int64_t i = std::max<int64_t>(begin, 0); i < end;) {
      const Run run = run_from(y_, i, end);
      find_rows(task, run, s);
      if (is_apart_)
        write_alike(task, run, dst + i * plan_.result.space[1], s);
      else
        write_row(task, dst + i * plan_.result.space[1], s);
      i += run.elements;
    }
  }

  void write_row(const Task& task, T* dst, Scratch& s) const {
    const int64_t step = plan_.result.space[2], bytes = task.n * int64_t(sizeof(T));
    for (const Run& column : s.columns) {
      const Terms& terms = find_terms(task, column, s);
      for (int64_t i = 0; i < column.elements; ++i, dst += step) {
        if (is_streamed_) {
          s.out.seek(dst);
          terms.hand_out(task.n, reinterpret_cast<T*>(s.out.reserve()));
          s.out.commit(bytes);
        } else if (i == 0) {
          terms.hand_out(task.n, dst);
        } else {
          copy_bytes(dst, dst - step, bytes);
        }
      }
    }
  }

  /// Rows whose elements have the same windows are joined once, in batches: vectors that were
  /// stored a moment ago cannot be loaded at once by lines of the result.
  void write_alike(const Task& task, const Run& rows, T* dst, Scratch& s) const {
    const Run *column = s.columns.data(), *const end = column + s.columns.size();
    while (column < end) {
      const Run* const first = column;
      int64_t elements = 0;
      for (int64_t n = 0; column < end && n + task.n <= kMostJoined; n += task.n, ++column) {
        find_terms(task, *column, s).hand_out(task.n, s.joined.get() + n);
        elements += column->elements;
      }
      for (int64_t i = 0; i < rows.elements; ++i)
        stream(first, column, task.n, dst + i * plan_.result.space[1], s);
      dst += elements * plan_.result.space[2];
    }
  }

  void stream(const Run* column, const Run* end, int64_t n, T* dst, Scratch& s) const {
    for (const T* joined = s.joined.get(); column < end; ++column, joined += n)
      for (int64_t i = 0; i < column->elements; ++i, dst += plan_.result.space[2]) {
        s.out.seek(dst);
        s.out.copy(joined, n * int64_t(sizeof(T)));
      }
  }

  /// Whether no element has two windows along an axis.
  static bool is_apart(const PoolAxis& a) { return a.stride > (a.window - 1) * a.dilation; }

  /// Products with it are the quotients, bit for bit, and take less time.
  static bool has_exact_inverse(int64_t taps) { return std::has_single_bit(uint64_t(taps)); }

  /// Windows of any place, whether there are such or not, over elements in the phase of one.
  static int64_t taps_over(const PoolAxis& a, int64_t element) {
    const int64_t turn = a.stride / std::gcd(a.stride, a.dilation);
    for (int64_t k = 0; k < std::min(turn, a.window); ++k)
      if ((element + a.start - k * a.dilation) % a.stride == 0)
        return (a.window - 1 - k) / turn + 1;
    return 0;
  }

  /// Bits do not depend on how many planes lie here: where windows fit blocks they are those of
  /// AverageBlocks, which joins from the last window to the first, rows of them after each other,
  /// and has a 0 where there is no window; else those of RowGather, which divides, and joins
  /// columns in ascending order, the rows of each first.
  const Terms& find_terms(const Task& task, const Run& column, Scratch& s) const {
    const int64_t index = &column - s.columns.data();
    Terms& t = s.terms[size_t(index % turns_)];
    if (column.follows) {
      s.pace.add(task.n * (column.elements + int64_t(t.grad.size())));
      for (const T*& grad : t.grad) grad += f_.y.space[2];
      return t;
    }
    t.grad.clear();
    t.factor.clear();
    s.pace.add(task.n * (column.elements + column.windows * int64_t(s.rows.size())));
    const auto add = [&](const WindowRow& row, int64_t c) {
      const int64_t taps = row.counted * s.counted[size_t(c - s.first_window)];
      t.divides = divides_ && !(is_blocked_ && has_exact_inverse(taps));
      t.grad.push_back(grad_ + task.y + row.offset + c * f_.y.space[2]);
      t.factor.push_back(t.divides ? Sum(taps) : 1 / Sum(taps));
    };
    if (is_blocked_) {
      for (auto row = s.rows.rbegin(); row != s.rows.rend(); ++row)
        for (int64_t i = column.windows - 1; i >= 0; --i) add(*row, column.first + i * column.step);
      t.rows = int64_t(t.grad.size());
      t.columns = 1;
      t.has_zero = t.rows < s.taps_above * column.taps;
    } else {
      for (int64_t i = 0; i < column.windows; ++i)
        for (const WindowRow& row : s.rows) add(row, column.first + i * column.step);
      t.rows = int64_t(s.rows.size());
      t.columns = column.windows;
      t.has_zero = true;
    }
    return t;
  }

  const PoolGradPlan& plan_;
  const PoolPlan& f_;
  const PoolAxis &y_, &x_;
  const T* const grad_;
  T* const result_;
  const bool is_blocked_, divides_, is_streamed_;
  const bool is_apart_;  // streamed, and no element of a row has two columns of windows
  const int64_t rows_;   // of a task
  const int64_t turns_;  // runs after which windows may follow those of a run before
};

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
