// Normalization of columns that are packed in memory, by explicit vectors.
#include "cpu/mvn_tiles.h"

#include <bit>
#include <memory>

#include "cpu/mvn_apply.h"
#include "cpu/mvn_layout.h"
#include "cpu/mvn_parts.h"
#include "cpu/mvn_sums.h"
#include "cpu/parallel.h"

namespace cudml::cpu::CUDML_ISA {

#if defined(CUDML_MVN_VECTORS)

namespace {

constexpr int64_t kMostColumns = 1024;
constexpr int64_t kFewestColumns = 8;  // unless rows follow each other
constexpr int64_t kRowsAtOnce = 8;
constexpr int64_t kPartBytes = 1 << 18;  // of x that one task sums
constexpr int64_t kFloatRows = 512;      // rows whose sums stay in float: chains of 72 additions
constexpr int64_t kSampleRows = 16;      // that the pivots are guessed from
constexpr int64_t kFarRows = 4096;       // bytes between rows that the processor does not foresee

template <class T>
class Tiles {
 public:
  Tiles(const MvnPlan& plan, const void* x, const void* scale, const void* bias, void* y)
      : plan_(plan),
        layout_(plan),
        columns_(layout_.columns),
        x_(static_cast<const T*>(x)),
        y_(static_cast<T*>(y)),
        scale_(scale, plan.scale_dtype, &kOne),
        bias_(bias, plan.bias_dtype, &kZero),
        is_cross_(varies(&MvnAxis::scale) || varies(&MvnAxis::bias)) {
    const int64_t rows = plan.group_size / layout_.fold, fold = layout_.fold;
    blocks_ = (columns_.size + kMostColumns - 1) / kMostColumns;
    const int64_t even = (columns_.size + blocks_ - 1) / blocks_;
    const int64_t step = fold > 1 ? fold : kFloats;
    width_ = std::min({(even + step - 1) / step * step, kMostColumns / step * step, columns_.size});
    blocks_ = (columns_.size + width_ - 1) / width_;
    if (can_repeat()) repeat_ = std::clamp<int64_t>(rows / kSampleRows, 1, kMostColumns / width_);
    rows_ = (rows + repeat_ - 1) / repeat_;
    last_repeat_ = rows - (rows_ - 1) * repeat_;
    const int64_t row_bytes = width_ * repeat_ * int64_t(sizeof(T));
    part_rows_ = (kPartBytes / row_bytes + kRowsAtOnce) / kRowsAtOnce * kRowsAtOnce;
    parts_ = (rows_ + part_rows_ - 1) / part_rows_;
    tasks_ = plan.groups * fold / columns_.size * blocks_;
    is_streamed_ = (row_bytes >= 2048 || (row_bytes % 64 == 0 && bytes_to_line(y_) == 0)) &&
                   is_copy_streamed(plan.groups * plan.group_size * int64_t(sizeof(T)));
  }

  void run() const {
    if (tasks_ < 4 * num_threads() && num_threads() > 1 && parts_ > 1) return run_in_parts();
    parallel_for(tasks_, plan_.compulsory_bytes(), [&](int64_t begin, int64_t end) {
      const std::unique_ptr<Scratch> scratch(new Scratch);
      const std::unique_ptr<State> state(new State);
      for (int64_t task = begin; task < end; ++task) run_block(block(task), *state, *scratch);
    });
  }

 private:
  using Sums = GroupSums<kMostColumns>;

  /// Up to width_ columns of one position of the outer kept dimensions.
  struct Block {
    Offsets origin;
    int64_t width;
  };

  struct Scratch {
    alignas(64) float guess[kMostColumns], sum[kMostColumns], square[kMostColumns];
    alignas(64) double wide_sum[kMostColumns], wide_square[kMostColumns];
    alignas(64) float pivot[kMostColumns], factor[kMostColumns], scale[kMostColumns],
        bias[kMostColumns];
  };

  /// What is known of a block's groups.
  struct State {
    Sums sums;
    Coefficients<kMostColumns> coefficients;
    bool is_bad[kMostColumns];
  };

  /// Whether rows differ in scale or bias.
  bool varies(int64_t MvnAxis::* stride) const {
    for (int d = 0; d < layout_.reduced_rank; ++d)
      if (plan_.reduced[d].*stride) return true;
    return false;
  }

  /// Whether rows that follow each other make up one longer row.
  bool can_repeat() const {
    const MvnAxis& next = plan_.reduced[0];
    return layout_.reduced_rank == 1 && next.x == columns_.size && next.y == columns_.size &&
           !is_cross_;
  }

  Block block(int64_t task) const {
    const int64_t first = task % blocks_ * width_;
    Offsets origin = Walk(plan_.kept, plan_.kept_rank - 1, task / blocks_).offsets();
    origin.add(columns_, first);
    return {origin, std::min(width_, columns_.size - first)};
  }

  int64_t groups_of(const Block& b) const { return b.width / layout_.fold; }
  int64_t row_width(const Block& b, int64_t row) const {
    return b.width * (row == rows_ - 1 ? last_repeat_ : repeat_);
  }

  /// Calls fn(row, offsets) for rows [first, end) of a block; a row is `repeat_` rows of the plan.
  template <class Fn>
  void for_rows(const Block& b, int64_t first, int64_t end, const Fn& fn) const {
    Walk at(plan_.reduced, layout_.reduced_rank, first * repeat_, b.origin);
    for (int64_t row = first; row < end; ++row) {
      fn(row, at.offsets());
      if (repeat_ == 1) {
        at.advance();
      } else if (row + 1 < end) {
        at = Walk(plan_.reduced, layout_.reduced_rank, (row + 1) * repeat_, b.origin);
      }
    }
  }

  void run_block(const Block& b, State& state, Scratch& scratch) const {
    guess(b, state.sums, scratch);
    sum_block(b, state.sums, scratch);
    if (!finish(b, state)) {
      sum_block(b, state.sums, scratch);
      finish_surely(b, state);
    }
    expand(b, state.coefficients, scratch);
    normalize(b, 0, rows_, scratch);
  }

  /// Pivots from rows all over the block. As powers of two of numbers are averaged, the guess at
  /// the mean of a constant group is exact.
  void guess(const Block& b, Sums& sums, Scratch& s) const {
    const int64_t groups = groups_of(b), fold = layout_.fold;
    std::fill_n(sums.guess, groups, 0.0f);
    if (!plan_.use_mean) return;
    const auto count = int64_t(std::bit_floor(
        uint64_t(std::clamp<int64_t>(rows_ - (last_repeat_ < repeat_), 1, kSampleRows))));
    const auto used = int64_t(std::bit_floor(uint64_t(fold)));
    clear(s);
    std::fill_n(s.guess, kMostColumns, 0.0f);
    for (int64_t k = 0; k < count; ++k) {
      const int64_t row = rows_ / count * k;
      for_rows(b, row, row + 1, [&](int64_t, const Offsets& at) {
        const T* x = x_ + at.x;
        add_rows<1>(&x, b.width, s.guess, s.sum, s.square);
      });
    }
    for (int64_t g = 0; g < groups; ++g) {
      double sum = 0;
      for (int64_t c = 0; c < used; ++c) sum += double(s.sum[g * fold + c]);
      sums.guess[g] = guess_of(sum, 1 / double(count * used));
    }
  }

  static void clear(Scratch& s) {
    std::fill_n(s.sum, kMostColumns, 0.0f);
    std::fill_n(s.square, kMostColumns, 0.0f);
  }

  void sum_block(const Block& b, Sums& sums, Scratch& scratch) const {
    const int64_t groups = groups_of(b);
    std::fill_n(sums.sum, groups, 0.0);
    std::fill_n(sums.square, groups, 0.0);
    spread(b, sums.guess, scratch.guess);
    for (int64_t part = 0; part < parts_; ++part) {
      sum_part(b, part, scratch);
      for (int64_t g = 0; g < groups; ++g) sums.sum[g] += scratch.wide_sum[g];
      for (int64_t g = 0; g < groups; ++g) sums.square[g] += scratch.wide_square[g];
    }
  }

  /// A value of each group for each column.
  void spread(const Block& b, const float* of_group, float* of_column) const {
    const int64_t fold = layout_.fold;
    if (fold == 1)
      std::copy_n(of_group, b.width, of_column);
    else
      for (int64_t g = 0; g < groups_of(b); ++g)
        std::fill_n(of_column + g * fold, fold, of_group[g]);
    for (int64_t k = 1; k < repeat_; ++k) std::copy_n(of_column, b.width, of_column + k * b.width);
  }

  /// Sums of each group over the part's rows about scratch.guess, in wide_sum and wide_square.
  void sum_part(const Block& b, int64_t part, Scratch& s) const {
    std::fill_n(s.wide_sum, kMostColumns, 0.0);
    std::fill_n(s.wide_square, kMostColumns, 0.0);
    const int64_t end = std::min(rows_, (part + 1) * part_rows_);
    for (int64_t first = part * part_rows_; first < end; first += kFloatRows) {
      clear(s);
      sum_rows(b, first, std::min(end, first + kFloatRows), s);
      for (int64_t c = 0; c < b.width * repeat_; ++c) s.wide_sum[c] += double(s.sum[c]);
      for (int64_t c = 0; c < b.width * repeat_; ++c) s.wide_square[c] += double(s.square[c]);
    }
    join(b, s.wide_sum);
    join(b, s.wide_square);
  }

  void sum_rows(const Block& b, int64_t first, int64_t end, Scratch& s) const {
    const T* x[kRowsAtOnce];
    int64_t held = 0;
    for_rows(b, first, end, [&](int64_t row, const Offsets& at) {
      const T* here = x_ + at.x;
      if (row == rows_ - 1) return add_rows<1>(&here, row_width(b, row), s.guess, s.sum, s.square);
      x[held++] = here;
      if (held < kRowsAtOnce) return;
      held = 0;
      add_rows<kRowsAtOnce>(x, row_width(b, row), s.guess, s.sum, s.square);
    });
    for (int64_t i = 0; i < held; ++i)
      add_rows<1>(x + i, b.width * repeat_, s.guess, s.sum, s.square);
  }

  /// Adds up the columns of each group, in place.
  void join(const Block& b, double* sums) const {
    for (int64_t k = 1; k < repeat_; ++k)
      for (int64_t c = 0; c < b.width; ++c) sums[c] += sums[k * b.width + c];
    const int64_t fold = layout_.fold;
    if (fold == 1) return;
    for (int64_t g = 0; g < groups_of(b); ++g) {
      double sum = 0;
      for (int64_t c = 0; c < fold; ++c) sum += sums[g * fold + c];
      sums[g] = sum;
    }
  }

  bool finish(const Block& b, State& state) const {
    if (state.sums.finish(plan_, groups_of(b), state.coefficients)) return true;
    for (int64_t g = 0; g < groups_of(b); ++g)
      state.is_bad[g] = !state.sums.correct_guess(plan_, g);
    return false;
  }

  void finish_surely(const Block& b, State& state) const {
    for (int64_t g = 0; g < groups_of(b); ++g)
      if (state.is_bad[g]) state.sums.finish_surely(plan_, g, state.coefficients);
  }

  /// The formula's rows, in the scratch.
  void expand(const Block& b, const Coefficients<kMostColumns>& c, Scratch& s) const {
    spread(b, c.pivot, s.pivot);
    spread(b, c.factor, s.factor);
    if (is_cross_) return spread(b, c.shift, s.bias);
    fill(b, scale_, b.origin.scale, columns_.scale, s.scale);
    fill(b, bias_, b.origin.bias, columns_.bias, s.bias);
    for (int64_t i = 0; i < b.width; ++i) {
      const float shift = c.shift[i / layout_.fold];
      if (shift != 0) s.bias[i] += shift * s.scale[i];
    }
    for (int64_t k = 1; k < repeat_; ++k) {
      std::copy_n(s.scale, b.width, s.scale + k * b.width);
      std::copy_n(s.bias, b.width, s.bias + k * b.width);
    }
  }

  static void fill(const Block& b, const Parameter<T>& p, int64_t offset, int64_t stride,
                   float* row) {
    if (stride == 0)
      std::fill_n(row, b.width, p.at(offset));
    else
      p.copy(offset, stride, b.width, row);
  }

  void normalize(const Block& b, int64_t first, int64_t end, const Scratch& s) const {
    const Flow<T> flow = {is_streamed_, nullptr};
    for_rows(b, first, end, [&](int64_t row, const Offsets& at) {
      const int64_t width = row_width(b, row);
      if (is_cross_)
        apply_activated(plan_.activation, y_ + at.y, x_ + at.x, width,
                        CrossFormula{s.pivot, s.factor, s.bias, broadcast(scale_.at(at.scale)),
                                     broadcast(bias_.at(at.bias))},
                        flow);
      else
        apply_activated(plan_.activation, y_ + at.y, x_ + at.x, width,
                        ColumnFormula{s.pivot, s.factor, s.scale, s.bias}, flow);
    });
  }

  /// Few blocks of many rows: threads share each of them. The sums are the same as in run_block.
  void run_in_parts() const {
    const std::unique_ptr<State[]> states(new State[size_t(tasks_)]);
    const std::unique_ptr<double[]> sums(new double[size_t(2 * tasks_ * parts_ * width_)]);
    parallel_for(tasks_, plan_.compulsory_bytes(), [&](int64_t begin, int64_t end) {
      const std::unique_ptr<Scratch> scratch(new Scratch);
      for (int64_t task = begin; task < end; ++task)
        guess(block(task), states[size_t(task)].sums, *scratch);
    });
    sum_parts(states.get(), sums.get());
    bool is_good = true;
    for (int64_t task = 0; task < tasks_; ++task) {
      State& state = states[size_t(task)];
      std::fill_n(state.is_bad, kMostColumns, false);
      is_good &= finish(block(task), state);
    }
    if (!is_good) {
      sum_parts(states.get(), sums.get());
      for (int64_t task = 0; task < tasks_; ++task)
        finish_surely(block(task), states[size_t(task)]);
    }
    normalize_parts(states.get());
  }

  void sum_parts(State* states, double* sums) const {
    for_parts([&](int64_t task, int64_t part, Scratch& scratch) {
      const Block b = block(task);
      spread(b, states[task].sums.guess, scratch.guess);
      sum_part(b, part, scratch);
      double* to = sums + 2 * (task * parts_ + part) * width_;
      std::copy_n(scratch.wide_sum, groups_of(b), to);
      std::copy_n(scratch.wide_square, groups_of(b), to + width_);
    });
    for (int64_t task = 0; task < tasks_; ++task) {
      const int64_t groups = groups_of(block(task));
      Sums& total = states[task].sums;
      std::fill_n(total.sum, groups, 0.0);
      std::fill_n(total.square, groups, 0.0);
      for (int64_t part = 0; part < parts_; ++part) {
        const double* from = sums + 2 * (task * parts_ + part) * width_;
        for (int64_t g = 0; g < groups; ++g) total.sum[g] += from[g];
        for (int64_t g = 0; g < groups; ++g) total.square[g] += from[width_ + g];
      }
    }
  }

  /// Backwards: what was read last may still be in the caches.
  void normalize_parts(const State* states) const {
    for_parts([&](int64_t index, int64_t at, Scratch& scratch) {
      const int64_t task = tasks_ - 1 - index, part = parts_ - 1 - at;
      const Block b = block(task);
      expand(b, states[task].coefficients, scratch);
      normalize(b, part * part_rows_, std::min(rows_, (part + 1) * part_rows_), scratch);
    });
  }

  template <class Fn>
  void for_parts(const Fn& fn) const {
    parallel_for(tasks_ * parts_, plan_.compulsory_bytes(), [&](int64_t begin, int64_t end) {
      const std::unique_ptr<Scratch> scratch(new Scratch);
      for (int64_t i = begin; i < end; ++i) fn(i / parts_, i % parts_, *scratch);
    });
  }

  static constexpr float kOne = 1, kZero = 0;

  const MvnPlan& plan_;
  const Layout layout_;
  const MvnAxis& columns_;
  const T* x_;
  T* y_;
  Parameter<T> scale_, bias_;
  bool is_cross_;
  int64_t width_, blocks_, tasks_, rows_, repeat_ = 1, last_repeat_, part_rows_, parts_;
  bool is_streamed_;
};

}  // namespace

bool are_columns_packed(const MvnPlan& plan) {
  if (plan.kept_rank == 0 || plan.reduced_rank == 0) return false;
  if (!(plan.use_mean || plan.use_variance)) return false;
  const Layout layout(plan);
  if (layout.fold == 1 && plan.reduced[plan.reduced_rank - 1].x == 1) return false;
  const MvnAxis& columns = layout.columns;
  if (columns.x != 1 || columns.y != 1) return false;
  const MvnAxis& next = plan.reduced[0];
  const bool can_repeat = layout.reduced_rank == 1 && next.x == columns.size;
  if (columns.size < kFewestColumns && !can_repeat) return false;
  if (columns.scale == 0 && columns.bias == 0) return true;
  for (int d = 0; d < layout.reduced_rank; ++d)
    if (plan.reduced[d].scale || plan.reduced[d].bias) return false;
  return true;
}

template <class T>
void mvn_tiles(const MvnPlan& plan, const void* x, const void* scale, const void* bias, void* y) {
  Tiles<T>(plan, x, scale, bias, y).run();
}

#else

bool are_columns_packed(const MvnPlan&) { return false; }

template <class T>
void mvn_tiles(const MvnPlan&, const void*, const void*, const void*, void*) {}

#endif

template void mvn_tiles<float>(const MvnPlan&, const void*, const void*, const void*, void*);
template void mvn_tiles<Float16>(const MvnPlan&, const void*, const void*, const void*, void*);
template void mvn_tiles<BFloat16>(const MvnPlan&, const void*, const void*, const void*, void*);

}  // namespace cudml::cpu::CUDML_ISA
