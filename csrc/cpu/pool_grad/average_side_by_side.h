// Gradient of average pooling for planes that lie side by side: an element of each at once, which
// joins the windows over it where their gradients stand.
#pragma once

#include <bit>
#include <vector>

#include "cpu/memory/line_stream.h"
#include "cpu/memory/tuning.h"
#include "cpu/pool_grad/blocks.h"
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
    if (step != 1 || n < kStep) return join_each(n, to);
    if (!is_blocked) return join<0, 0, true>(n, to);
    if (divides) return join<1, 1, true>(n, to);
    if (grad.size() == 1) return join<1, 1>(n, to);
    if (grad.size() == 2) return join<2, 1>(n, to);
    if (grad.size() == 4) return join<4, 1>(n, to);
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

  /// The same one by one, of planes that are few, or apart in the gradients.
  [[gnu::noinline]] void join_each(int64_t n, T* to) const {
    for (int64_t i = 0; i < n; ++i) {
      Sum sum = 0;
      for (int64_t k = 0, c = 0; c < columns; ++c) {
        Sum column = 0;
        for (int64_t r = 0; r < rows; ++r, ++k) {
          const Sum g = Sum(load_as_acc(grad[size_t(k)][i * step]));
          const Sum by = factor[size_t(k)];
          column = joined(column, divides ? g / by : g * by, r == 0);
        }
        sum = joined(sum, column, c == 0);
      }
      to[i] = store_as<T>(has_zero ? sum + Sum(0) : sum);
    }
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
  static constexpr int64_t kPixels = tuning::pool_grad::kPixels;

 public:
  AverageSideBySide(const PoolGradPlan& plan, const void* grad, void* result)
      : plan_(plan),
        f_(plan.forward),
        x_(f_.axis[2]),
        grad_(static_cast<const T*>(grad)),
        result_(static_cast<T*>(result)),
        is_blocked_(BlockShape::fits(plan)),
        divides_(!is_blocked_ || BlockShape::taps_of_phase(f_) == 1),
        is_streamed_(is_streamed(f_.batch[0] * f_.batch[1] * f_.axis[0].in * f_.axis[1].in * x_.in *
                                 int64_t(sizeof(T)))) {}

  void run() const {
    TaskSpace space = plane_tasks(plan_, true, kMostLanes);
    for (int i = 0; i < 2; ++i)
      space.dim[kSpaceDim + i] = {f_.axis[i].in, plan_.result.space[i], 0, 0, 0};
    space.dim[kSpaceDim + 2].size = (x_.in + kPixels - 1) / kPixels;
    parallel_for(space.count(), plan_.compulsory_bytes(), [&](int64_t begin, int64_t end) {
      Scratch s(*this);
      for_tasks(space, begin, end, [&](const Task& task, int64_t) { row(task, s); });
    });
  }

 private:
  /// A row of windows: its offset in the gradients, and how many rows of a window count.
  struct WindowRow {
    int64_t offset, counted;
  };

  /// Columns of windows over an element, and how many there would be were there all.
  struct Column {
    int64_t first, step, windows, taps;
  };

  struct Scratch {
    int64_t piece = -1, first_window = 0;
    std::vector<Column> columns;   // those over each element of the piece
    std::vector<int64_t> counted;  // by columns of windows, from first_window on
    std::vector<WindowRow> rows;
    int64_t taps_above = 0;  // rows of windows over such elements, were there all
    Terms terms;
    LineStream out;

    explicit Scratch(const AverageSideBySide& all) : terms(all.is_blocked_, all.f_.y.batch[1]) {}
  };

  /// Divisions take longer than an element of few planes: rows have their pieces in common.
  void prepare(int64_t piece, Scratch& s) const {
    const int64_t from = piece * kPixels, to = std::min(from + kPixels, x_.in);
    const Reach reach = reach_of(x_, from, to - 1);
    s.piece = piece;
    s.first_window = reach.first;
    s.columns.clear();
    for (int64_t i = from; i < to; ++i) {
      const Covers c = covers_of(x_, i);
      const int64_t windows = c.last < c.first ? 0 : (c.last - c.first) / c.step + 1;
      s.columns.push_back({c.first, c.step, windows, taps_over(x_, i)});
    }
    s.counted.clear();
    for (int64_t o = reach.first; o <= reach.last; ++o) s.counted.push_back(counted_at(f_, 2, o));
  }

  void find_rows(const Task& task, Scratch& s) const {
    s.rows.clear();
    s.taps_above = taps_over(f_.axis[0], task.space(0)) * taps_over(f_.axis[1], task.space(1));
    const Covers above = covers_of(f_.axis[0], task.space(0));
    const Covers rows = covers_of(f_.axis[1], task.space(1));
    for (int64_t a = above.first; a <= above.last; a += above.step)
      for (int64_t b = rows.first; b <= rows.last; b += rows.step)
        s.rows.push_back(
            {a * f_.y.space[0] + b * f_.y.space[1], counted_at(f_, 0, a) * counted_at(f_, 1, b)});
  }

  void row(const Task& task, Scratch& s) const {
    if (task.space(2) != s.piece) prepare(task.space(2), s);
    find_rows(task, s);
    const int64_t step = plan_.result.space[2], bytes = task.n * int64_t(sizeof(T));
    T* dst = result_ + task.x + task.space(2) * kPixels * step;
    Pace pace;
    for (const Column& column : s.columns) {
      find_terms(task, column, s);
      pace.add(task.n * (1 + int64_t(s.terms.grad.size())));
      if (is_streamed_) {
        s.out.seek(dst);
        s.terms.hand_out(task.n, reinterpret_cast<T*>(s.out.reserve()));
        s.out.commit(bytes);
      } else {
        s.terms.hand_out(task.n, dst);
      }
      dst += step;
    }
  }

  /// Products with it are the quotients, bit for bit, and take less time.
  static bool has_exact_inverse(int64_t taps) { return std::has_single_bit(uint64_t(taps)); }

  /// Windows of any place, whether there are such or not, over elements in the phase of one.
  static int64_t taps_over(const PoolAxis& a, int64_t element) {
    int64_t n = 0;
    for (int64_t k = 0; k < a.window; ++k)
      n += (element + a.start - k * a.dilation) % a.stride == 0;
    return n;
  }

  /// Bits do not depend on how many planes lie here: where windows fit blocks they are those of
  /// AverageBlocks, which joins from the last window to the first, rows of them after each other,
  /// and has a 0 where there is no window; else those of RowGather, which divides, and joins
  /// columns in ascending order, the rows of each first.
  void find_terms(const Task& task, const Column& column, Scratch& s) const {
    Terms& t = s.terms;
    t.grad.clear();
    t.factor.clear();
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
  }

  const PoolGradPlan& plan_;
  const PoolPlan& f_;
  const PoolAxis& x_;
  const T* const grad_;
  T* const result_;
  const bool is_blocked_, divides_, is_streamed_;
};

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
