// Gradient of average pooling by rows: a row of elements joins the rows of windows that cover it,
// divided by what they count, then the windows' columns.
#pragma once

#include <memory>
#include <vector>

#include "cpu/memory/line_stream.h"
#include "cpu/memory/tuning.h"
#include "cpu/pool/thirds.h"
#include "cpu/pool_grad/average_pairs.h"
#include "cpu/pool_grad/blocks.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

/// Gradients, each times the same factor.
template <class T>
struct SharesOf : SumOf<T> {
  Acc<T> factor = 1;

  Vector<Acc<T>> load(const T* p) const { return load_floats(p) * factor; }
};

/// Packed rows, of windows that advance by 1 along them, or of two columns that advance by 2.
template <class T>
class AverageRows {
  using Sum = Acc<T>;
  using Sums = Vector<Sum>;
  static constexpr int64_t kStep = kLanes<Sum>;
  static constexpr int64_t kColumns = LineStream::kShort / int64_t(sizeof(T));  // of a task
  static constexpr int64_t kElements = tuning::pool_grad::kRowElements;
  static constexpr int64_t kMostWindow = 16, kMostReach = 64;
  static constexpr int64_t kMostLate = tuning::pool_grad::kMostLate;
  static constexpr int64_t kAhead = tuning::pool_grad::kRowAheadBytes;

 public:
  static bool fits(const PoolGradPlan& plan) {
    const PoolPlan& f = plan.forward;
    const PoolAxis &z = f.axis[0], &y = f.axis[1], &x = f.axis[2];
    const bool is_pair = x.stride == 2 && x.window == 2 && x.dilation == 1;
    return z.in * z.out * z.window == 1 && z.start == 0 && f.y.space[2] == 1 &&
           plan.result.space[2] == 1 && x.out >= kStep && y.window <= kMostWindow &&
           x.window <= kMostWindow && (is_pair || x.stride == 1) &&
           (x.window - 1) * x.dilation <= kMostReach;
  }

  AverageRows(const PoolGradPlan& plan, const void* grad, void* result)
      : plan_(plan),
        y_(plan.forward.axis[1]),
        x_(plan.forward.axis[2]),
        grad_(static_cast<const T*>(grad)),
        result_(static_cast<T*>(result)),
        reach_(x_.stride == 1 ? (x_.window - 1) * x_.dilation : 0),
        columns_(even_part(x_.in, kColumns)),
        height_(even_part(y_.in, std::max<int64_t>(1, kElements / columns_))),
        pitch_((columns_ + reach_ + 2 * kStep) / kStep * kStep),
        late_(std::min(kMostLate, Scratch::kLineRoom / pitch_ - 1)),
        divides_(BlockShape::taps_of_phase(plan.forward) == 1),
        is_streamed_(is_streamed(plan.forward.batch[0] * plan.forward.batch[1] * y_.in * x_.in *
                                 int64_t(sizeof(T)))),
        thirds_(has_thirds()),
        end_(end_of(plan.forward, grad_, plan.forward.y, &PoolOuter::y, &PoolAxis::out)) {}

  void run() const {
    TaskSpace space = plane_tasks(plan_, false, 1);
    space.dim[kSpaceDim + 1].size = (y_.in + height_ - 1) / height_;
    space.dim[kSpaceDim + 2].size = (x_.in + columns_ - 1) / columns_;
    parallel_for(space.count(), plan_.compulsory_bytes(), [&](int64_t begin, int64_t end) {
      const auto scratch = std::make_unique_for_overwrite<Scratch>();
      for_tasks(space, begin, end, [&](const Task& task, int64_t) { block(task, *scratch); });
    });
  }

 private:
  /// Lines begin with window `low`, the first that any element of the task's columns needs.
  struct Scratch {
    /// A type of this level alone, and so are the functions that a vector of it brings along.
    struct RowCovers : Covers {};

    static constexpr int64_t kRoom = kColumns + kMostReach + 2 * kStep, kLineRoom = 4 * kRoom;

    int64_t chunk = -1, first, n, low, from, to;  // windows [from, to) of the line exist
    int64_t band = -1, first_row;
    std::vector<RowCovers> rows;   // windows over each row of the band
    std::vector<int64_t> counted;  // by rows of windows, from first_row on
    bool is_ready[kMostWindow + 1], counts_alike, rows_alike;
    Sum counts[kRoom], factors[kMostWindow + 1][kRoom];
    alignas(64) Sum line[kLineRoom];
    alignas(64) T rest[kStep];
    alignas(64) Sum numbers[kRoom];
    LineStream out;
  };

  /// Divisions take longer than a short row: planes have their bands in common.
  void prepare_rows(int64_t band, Scratch& s) const {
    const int64_t top = band * height_, n = std::min(height_, y_.in - top);
    s.band = band;
    s.rows.resize(size_t(n));
    for (int64_t i = 0; i < n; ++i) s.rows[size_t(i)] = {covers_of(y_, top + i)};
    s.first_row = reach_of(y_, top, top + n - 1).first;
    const int64_t last = reach_of(y_, top, top + n - 1).last;
    s.counted.clear();
    for (int64_t b = s.first_row; b <= last; ++b)
      s.counted.push_back(counted_at(plan_.forward, 1, b));
    s.rows_alike = std::all_of(s.counted.begin(), s.counted.end(),
                               [&](int64_t count) { return count == s.counted.front(); });
  }

  void prepare(int64_t chunk, Scratch& s) const {
    s.chunk = chunk;
    s.first = chunk * columns_;
    s.n = std::min(columns_, x_.in - s.first);
    const int64_t first = s.first + x_.start, last = first + s.n - 1;
    s.low = first / x_.stride - reach_;
    s.from = std::max<int64_t>(0, -s.low);
    s.to = std::max(s.from, std::min(x_.out, last / x_.stride + 1) - s.low);
    for (int64_t i = s.from; i < s.to; ++i)
      s.counts[i] = Sum(counted_at(plan_.forward, 2, s.low + i));
    s.counts_alike = std::all_of(s.counts + s.from, s.counts + s.to,
                                 [&](Sum count) { return count == s.counts[s.from]; });
    for (int64_t i = 0; thirds_ && i < segment(); ++i)
      s.numbers[i] = same_bits<Sum>(IntegerLike<Sum>(i % x_.in - x_.start));
    std::fill_n(s.is_ready, kMostWindow + 1, false);
    std::fill_n(s.line, Scratch::kLineRoom, Sum{0});
  }

  /// What a row of windows of `count` counted rows is divided by, or multiplied with where windows
  /// overlap: that is as good once there is a sum to round.
  const Sum* factors_of(int64_t count, Scratch& s) const {
    Sum* const factors = s.factors[count];
    if (s.is_ready[count]) return factors;
    s.is_ready[count] = true;
    for (int64_t i = s.from; i < s.to; ++i) {
      const Sum divisor = Sum(count) * s.counts[i];
      factors[i] = divides_ ? divisor : 1 / divisor;
    }
    return factors;
  }

  /// Columns are joined some rows later than rows, when the stores of their line have left the
  /// processor: loads at other offsets wait for that.
  void block(const Task& task, Scratch& s) const {
    if (task.space(2) != s.chunk) prepare(task.space(2), s);
    if (task.space(1) != s.band) prepare_rows(task.space(1), s);
    if (thirds_ && s.counts_alike && s.rows_alike) return join_neighbours(task, s);
    const int64_t top = task.space(1) * height_, bottom = std::min(top + height_, y_.in);
    const Sum* lines[kMostLate + 1];
    Covers before{0, -1, 1};
    for (int64_t y = top, slot = 0; y < bottom + late_; ++y) {
      if (y < bottom) {
        const Covers& rows = s.rows[size_t(y - top)];
        if (y == top || rows.first != before.first || rows.last != before.last) {
          slot = slot == late_ ? 0 : slot + 1;
          join_rows(grad_ + task.y + s.low, rows, s, s.line + slot * pitch_);
          before = rows;
        }
        lines[y & kMostLate] = s.line + slot * pitch_;
      }
      const int64_t late = y - late_;
      if (late >= top) put(task, late, lines[late & kMostLate], s);
    }
  }

  /// Room for kColumns elements that belong at dst.
  T* room_at(T* dst, Scratch& s) const {
    if (!is_streamed_) return reinterpret_cast<T*>(s.line + Scratch::kLineRoom / 2);
    s.out.seek(dst);
    return reinterpret_cast<T*>(s.out.reserve());
  }
  void put_room(T* dst, const T* room, int64_t n, Scratch& s) const {
    if (is_streamed_)
      s.out.commit(n * int64_t(sizeof(T)));
    else
      copy_bytes(dst, room, n * int64_t(sizeof(T)));
  }

  /// Windows of 3 x 3 on planes without gaps, each element below the middle of one.
  bool has_thirds() const {
    const auto suits = [](const PoolAxis& a) {
      return a.window == 3 && a.stride == 1 && a.dilation == 1 && a.start == 1 && a.out == a.in;
    };
    return suits(x_) && suits(y_) && columns_ == x_.in && plan_.forward.y.space[1] == x_.in &&
           plan_.result.space[1] == x_.in;
  }
  int64_t segment() const { return std::max<int64_t>(1, 16 * kStep / x_.in) * x_.in; }

  /// Rows that three rows of windows cover follow each other: columns are joined in registers.
  void join_neighbours(const Task& task, Scratch& s) const {
    const int64_t top = task.space(1) * height_, n = int64_t(s.rows.size());
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

  void join_lines(const Task& task, int64_t y, int64_t lines, const Covers& rows,
                  Scratch& s) const {
    const int64_t n = lines * x_.in;
    const T* src[3];
    for (int64_t b = 0; b < 3; ++b) src[b] = grad_ + task.y + (rows.first + b) * x_.in;
    SharesOf<T> op;
    op.factor = factors_of(s.counted[size_t(rows.first - s.first_row)], s)[s.from];
    T* const dst = result_ + task.x + y * x_.in;
    T* const to = room_at(dst, s);
    const T* const next = src[2] + kAhead / int64_t(sizeof(T));
    const LineTaps<SharesOf<T>> taps{src, 3, n, x_.in, segment(), s.numbers, end_};
    join_thirds<3>(op, taps, [=](int64_t at, int64_t, const Sums& v) {
      store_floats(to + at, v);
      __builtin_prefetch(next + at, 0, 2);
    });
    put_room(dst, to, n, s);
  }

  void put(const Task& task, int64_t y, const Sum* line, Scratch& s) const {
    T* const dst = result_ + task.x + y * plan_.result.space[1] + s.first;
    if (!is_streamed_) {
      const int64_t whole = s.n / kStep * kStep;
      join_columns(s, line, 0, whole, dst);
      join_columns(s, line, whole, s.n, s.rest);
      return copy_short(reinterpret_cast<char*>(dst + whole), reinterpret_cast<const char*>(s.rest),
                        (s.n - whole) * int64_t(sizeof(T)));
    }
    s.out.seek(dst);
    join_columns(s, line, 0, s.n, reinterpret_cast<T*>(s.out.reserve()));
    s.out.commit(s.n * int64_t(sizeof(T)));
  }

  /// The line of what the windows of all these rows hand out to each of their elements.
  void join_rows(const T* grad, const Covers& rows, Scratch& s, Sum* line) const {
    const T* src[kMostWindow];
    const Sum* factors[kMostWindow];
    int64_t count = 0;
    for (int64_t b = rows.first; b <= rows.last; b += rows.step) {
      src[count] = grad + b * plan_.forward.y.space[1];
      factors[count++] = factors_of(s.counted[size_t(b - s.first_row)], s);
    }
    const char* const ahead =
        count ? reinterpret_cast<const char*>(src[count - 1]) + kAhead : nullptr;
    if (count == 0) {
      std::fill(line + s.from, line + s.to, Sum{0});
    } else if (divides_) {
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
  static void join(const Scratch& s, const char* ahead, Sum* line, const Value& value) {
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

  /// Columns [i, end) of the task, in whole vectors.
  void join_columns(const Scratch& s, const Sum* line, int64_t i, int64_t end, T* to) const {
    if (x_.stride == 2) return hand_out_pairs(s, line, i, end, to);
    if (reach_ == 2 && x_.window == 3) return add_columns<3>(line, i, end, 1, to);
    add_columns<0>(line, i, end, x_.dilation, to);
  }

  void hand_out_pairs(const Scratch& s, const Sum* line, int64_t i, int64_t end, T* to) const {
    const auto half =
        (ascending<IntegerLike<Sum>>() + IntegerLike<Sum>((s.first + x_.start) % 2)) >> 1;
    for (; i < end; i += kStep, to += kStep)
      store_floats(to, shuffled(load_vector<Sums>(line + i / 2), half));
  }

  /// In the order of the windows; kWindow is their length, or 0 for any.
  template <int kWindow>
  void add_columns(const Sum* line, int64_t i, int64_t end, int64_t dilation, T* to) const {
    const int64_t window = kWindow ? kWindow : x_.window;
    for (; i < end; i += kStep, to += kStep) {
      auto sum = load_vector<Sums>(line + i);
      for (int64_t k = 1; k < window; ++k) sum += load_vector<Sums>(line + i + k * dilation);
      store_floats(to, sum);
    }
  }

  const PoolGradPlan& plan_;
  const PoolAxis &y_, &x_;
  const T* grad_;
  T* result_;
  const int64_t reach_, columns_, height_;
  const int64_t pitch_, late_;  // of lines; rows between joining rows and columns
  const bool divides_, is_streamed_;
  const bool thirds_;
  const T* const end_;  // of gradients
};

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
