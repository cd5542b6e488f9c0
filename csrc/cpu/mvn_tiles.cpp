// Normalization of columns that are packed in memory, by explicit vectors.
#include "cpu/mvn_tiles.h"

#include <bit>
#include <memory>

#include "cpu/mvn_blocks.h"
#include "cpu/mvn_near.h"
#include "cpu/mvn_sums.h"
#include "cpu/parallel.h"

namespace cudml::cpu::CUDML_ISA {

#if defined(CUDML_MVN_VECTORS)

namespace {

constexpr int64_t kFewestColumns = 8;     // unless rows follow each other
constexpr int64_t kPartBytes = 1 << 18;   // of kFewColumns of x that one task sums
constexpr int64_t kAheadBytes = 1 << 15;  // of x, from rows that are summed to those read ahead
constexpr int64_t kNearBytes = 1 << 12;   // the same from rows that are written
template <class T>
constexpr int64_t kRowsAtOnce = 16 / sizeof(T);
template <class T>
constexpr int64_t kFloatRows = 64 * kRowsAtOnce<T>;  // whose sums stay in float, in chains of 72

template <class T>
class Tiles {
 public:
  Tiles(const MvnPlan& plan, const void* x, const void* scale, const void* bias, void* y)
      : plan_(plan),
        blocks_(plan, sizeof(T), kFloats),
        x_(static_cast<const T*>(x)),
        y_(static_cast<T*>(y)),
        scale_(scale, plan.scale_dtype, &kOne),
        bias_(bias, plan.bias_dtype, &kZero) {
    const int64_t row_bytes = blocks_.width * blocks_.repeat * int64_t(sizeof(T));
    const int64_t few_bytes = std::min(row_bytes, kFewColumns * int64_t(sizeof(T)));
    part_rows_ = (kPartBytes / few_bytes + kRowsAtOnce<T>) / kRowsAtOnce<T> * kRowsAtOnce<T>;
    parts_ = (blocks_.rows + part_rows_ - 1) / part_rows_;
    is_streamed_ = (row_bytes >= 2048 || (row_bytes % 64 == 0 && bytes_to_line(y_) == 0)) &&
                   is_copy_streamed(plan.groups * plan.group_size * int64_t(sizeof(T)));
  }

  void run() const {
    if (blocks_.tasks < 4 * num_threads() && num_threads() > 1 && parts_ > 1) return run_in_parts();
    parallel_for(blocks_.tasks, plan_.compulsory_bytes(), [&](int64_t begin, int64_t end) {
      const std::unique_ptr<Scratch> scratch(new Scratch);
      const std::unique_ptr<State> state(new State);
      for (int64_t task = begin; task < end; ++task)
        run_block(blocks_.block(task), *state, *scratch);
    });
  }

 private:
  using Block = Blocks::Block;
  using Sums = GroupSums<kMostColumns>;

  struct State;

  struct Scratch {
    alignas(64) float guess[kMostColumns], sum[kMostColumns], square[kMostColumns];
    alignas(64) double wide_sum[kMostColumns], wide_square[kMostColumns];
    alignas(64) float pivot[kMostColumns], factor[kMostColumns], shift[kMostColumns],
        scale[kMostColumns], bias[kMostColumns];
    bool are_near;  // factor and shift are all of the formula
    const State* expanded = nullptr;
  };

  /// What is known of a block's groups.
  struct State {
    Sums sums;
    Coefficients<kMostColumns> coefficients;
    bool is_bad[kMostColumns];
  };

  void run_block(const Block& b, State& state, Scratch& scratch) const {
    guess(b, state.sums, scratch);
    sum_block(b, state.sums, scratch);
    if (!finish(b, state)) {
      sum_block(b, state.sums, scratch);
      finish_surely(b, state);
    }
    expand(b, state.coefficients, scratch);
    for (int64_t part = parts_; part-- > 0;) normalize(b, part, scratch);
  }

  /// Pivots from rows all over the block. As powers of two of numbers are averaged, the guess at
  /// the mean of a constant group is exact.
  void guess(const Block& b, Sums& sums, Scratch& s) const {
    const int64_t groups = blocks_.groups_of(b), fold = blocks_.layout.fold;
    std::fill_n(sums.guess, groups, 0.0f);
    if (!plan_.use_mean) return;
    const auto count = int64_t(std::bit_floor(uint64_t(std::clamp<int64_t>(
        blocks_.rows - (blocks_.last_repeat < blocks_.repeat), 1, kSampleRows))));
    const auto some = int64_t(std::bit_floor(uint64_t(fold)));
    clear(b, s);
    std::fill_n(s.guess, used(b), 0.0f);
    for (int64_t k = 0; k < count; ++k) {
      const int64_t row = blocks_.rows / count * k;
      blocks_.for_rows(b, row, row + 1, [&](int64_t, const Offsets& at) {
        const T* x = x_ + at.x;
        add_rows<1>(&x, b.width, s.guess, s.sum, s.square);
      });
    }
    for (int64_t g = 0; g < groups; ++g) {
      double sum = 0;
      for (int64_t c = 0; c < some; ++c) sum += double(s.sum[g * fold + c]);
      sums.guess[g] = guess_of(sum, 1 / double(count * some));
    }
  }

  /// Columns of the scratch's rows that a block uses, in whole vectors.
  int64_t used(const Block& b) const {
    return (b.width * blocks_.repeat + kFloats - 1) / kFloats * kFloats;
  }

  void clear(const Block& b, Scratch& s) const {
    std::fill_n(s.sum, used(b), 0.0f);
    std::fill_n(s.square, used(b), 0.0f);
  }

  void sum_block(const Block& b, Sums& sums, Scratch& scratch) const {
    const int64_t groups = blocks_.groups_of(b);
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
    const int64_t fold = blocks_.layout.fold;
    if (fold == 1)
      std::copy_n(of_group, b.width, of_column);
    else
      for (int64_t g = 0; g < blocks_.groups_of(b); ++g)
        std::fill_n(of_column + g * fold, fold, of_group[g]);
    for (int64_t k = 1; k < blocks_.repeat; ++k)
      std::copy_n(of_column, b.width, of_column + k * b.width);
  }

  /// Sums of each group over the part's rows about scratch.guess, in wide_sum and wide_square.
  void sum_part(const Block& b, int64_t part, Scratch& s) const {
    std::fill_n(s.wide_sum, used(b), 0.0);
    std::fill_n(s.wide_square, used(b), 0.0);
    const int64_t end = std::min(blocks_.rows, (part + 1) * part_rows_);
    for (int64_t first = part * part_rows_; first < end; first += kFloatRows<T>) {
      clear(b, s);
      sum_rows(b, first, std::min(end, first + kFloatRows<T>), s);
      for (int64_t c = 0; c < b.width * blocks_.repeat; ++c) s.wide_sum[c] += double(s.sum[c]);
      for (int64_t c = 0; c < b.width * blocks_.repeat; ++c)
        s.wide_square[c] += double(s.square[c]);
    }
    join(b, s.wide_sum);
    join(b, s.wide_square);
  }

  void sum_rows(const Block& b, int64_t first, int64_t end, Scratch& s) const {
    const T* x[kRowsAtOnce<T>];
    int64_t held = 0;
    blocks_.for_rows(b, first, end, [&](int64_t row, const Offsets& at) {
      const T* here = x_ + at.x;
      if (row == blocks_.rows - 1)
        return add_rows<1>(&here, blocks_.row_width(b, row), s.guess, s.sum, s.square);
      x[held++] = here;
      if (held < kRowsAtOnce<T>) return;
      held = 0;
      add_rows<kRowsAtOnce<T>>(x, blocks_.row_width(b, row), s.guess, s.sum, s.square,
                               rows_ahead(b, row, x[0]));
    });
    for (int64_t i = 0; i < held; ++i)
      add_rows<1>(x + i, b.width * blocks_.repeat, s.guess, s.sum, s.square);
  }

  /// The row that stands `bytes` or more after another at x, or null.
  const T* ahead(int64_t row, const T* x, int64_t bytes) const {
    const int64_t step = blocks_.row_step();
    const int64_t rows = bytes / (blocks_.width * blocks_.repeat * int64_t(sizeof(T))) + 1;
    return step && row + rows < blocks_.rows ? x + rows * step : nullptr;
  }

  /// What to read while kRowsAtOnce rows from x on are summed, up to `row`.
  RowsAhead rows_ahead(const Block& b, int64_t row, const T* x) const {
    const int64_t width = b.width * blocks_.repeat, gap = blocks_.row_step() - width;
    return {reinterpret_cast<const char*>(ahead(row, x, kAheadBytes)), width * int64_t(sizeof(T)),
            gap * int64_t(sizeof(T))};
  }

  /// Adds up the columns of each group, in place.
  void join(const Block& b, double* sums) const {
    for (int64_t k = 1; k < blocks_.repeat; ++k)
      for (int64_t c = 0; c < b.width; ++c) sums[c] += sums[k * b.width + c];
    const int64_t fold = blocks_.layout.fold;
    if (fold == 1) return;
    for (int64_t g = 0; g < blocks_.groups_of(b); ++g) {
      double sum = 0;
      for (int64_t c = 0; c < fold; ++c) sum += sums[g * fold + c];
      sums[g] = sum;
    }
  }

  bool finish(const Block& b, State& state) const {
    if (state.sums.finish(plan_, blocks_.groups_of(b), state.coefficients)) return true;
    for (int64_t g = 0; g < blocks_.groups_of(b); ++g)
      state.is_bad[g] = !state.sums.correct_guess(plan_, g);
    return false;
  }

  void finish_surely(const Block& b, State& state) const {
    for (int64_t g = 0; g < blocks_.groups_of(b); ++g)
      if (state.is_bad[g]) state.sums.finish_surely(plan_, g, state.coefficients);
  }

  /// The formula's rows, in the scratch.
  void expand(const Block& b, const Coefficients<kMostColumns>& c, Scratch& s) const {
    spread(b, c.pivot, s.pivot);
    spread(b, c.factor, s.factor);
    spread(b, c.shift, s.shift);
    s.are_near = false;
    if (blocks_.is_cross) return;
    fill(b, scale_, b.origin.scale, blocks_.layout.columns.scale, s.scale);
    fill(b, bias_, b.origin.bias, blocks_.layout.columns.bias, s.bias);
    spread(b, c.near, s.sum);
    s.are_near = join_near(s.sum, b.width, {s.pivot, s.factor, s.shift, s.scale, s.bias}) &&
                 (is_plain(plan_.activation) || plan_.activation.kind == ActivationKind::swish);
    for (int64_t k = 1; k < blocks_.repeat; ++k)
      for (float* row : {s.pivot, s.factor, s.shift, s.scale, s.bias})
        std::copy_n(row, b.width, row + k * b.width);
  }

  static void fill(const Block& b, const Parameter<T>& p, int64_t offset, int64_t stride,
                   float* row) {
    if (stride == 0)
      std::fill_n(row, b.width, p.at(offset));
    else
      p.copy(offset, stride, b.width, row);
  }

  /// Parts are written from the last one on: what was read last may still be in the caches.
  void normalize(const Block& b, int64_t part, const Scratch& s) const {
    const int64_t first = part * part_rows_, end = std::min(blocks_.rows, first + part_rows_);
    blocks_.for_rows(b, first, end, [&](int64_t row, const Offsets& at) {
      const int64_t width = blocks_.row_width(b, row);
      const Flow<T> flow = {is_streamed_, ahead(row, x_ + at.x, kNearBytes)};
      T* const y = y_ + at.y;
      const T* const x = x_ + at.x;
      if (s.are_near)
        apply_near(plan_.activation, y, x, width, NearColumnFormula{s.factor, s.shift}, flow);
      else if (blocks_.is_cross)
        apply_activated(plan_.activation, y, x, width,
                        CrossFormula{s.pivot, s.factor, s.shift, broadcast(scale_.at(at.scale)),
                                     broadcast(bias_.at(at.bias))},
                        flow);
      else
        apply_activated(plan_.activation, y, x, width,
                        GeneralFormula{s.pivot, s.factor, s.shift, s.scale, s.bias}, flow);
    });
  }

  /// Few blocks of many rows: threads share each of them. The sums are the same as in run_block.
  void run_in_parts() const {
    const std::unique_ptr<State[]> states(new State[size_t(blocks_.tasks)]);
    const std::unique_ptr<double[]> sums(
        new double[size_t(2 * blocks_.tasks * parts_ * blocks_.width)]);
    parallel_for(blocks_.tasks, plan_.compulsory_bytes(), [&](int64_t begin, int64_t end) {
      const std::unique_ptr<Scratch> scratch(new Scratch);
      for (int64_t task = begin; task < end; ++task)
        guess(blocks_.block(task), states[size_t(task)].sums, *scratch);
    });
    sum_parts(states.get(), sums.get());
    bool is_good = true;
    for (int64_t task = 0; task < blocks_.tasks; ++task) {
      State& state = states[size_t(task)];
      std::fill_n(state.is_bad, blocks_.width, false);
      is_good &= finish(blocks_.block(task), state);
    }
    if (!is_good) {
      sum_parts(states.get(), sums.get());
      for (int64_t task = 0; task < blocks_.tasks; ++task)
        finish_surely(blocks_.block(task), states[size_t(task)]);
    }
    normalize_parts(states.get());
  }

  void sum_parts(State* states, double* sums) const {
    for_parts([&](int64_t task, int64_t part, Scratch& scratch) {
      const Block b = blocks_.block(task);
      spread(b, states[task].sums.guess, scratch.guess);
      sum_part(b, part, scratch);
      double* to = sums + 2 * (task * parts_ + part) * blocks_.width;
      std::copy_n(scratch.wide_sum, blocks_.groups_of(b), to);
      std::copy_n(scratch.wide_square, blocks_.groups_of(b), to + blocks_.width);
    });
    for (int64_t task = 0; task < blocks_.tasks; ++task) {
      const int64_t groups = blocks_.groups_of(blocks_.block(task));
      Sums& total = states[task].sums;
      std::fill_n(total.sum, groups, 0.0);
      std::fill_n(total.square, groups, 0.0);
      for (int64_t part = 0; part < parts_; ++part) {
        const double* from = sums + 2 * (task * parts_ + part) * blocks_.width;
        for (int64_t g = 0; g < groups; ++g) total.sum[g] += from[g];
        for (int64_t g = 0; g < groups; ++g) total.square[g] += from[blocks_.width + g];
      }
    }
  }

  void normalize_parts(const State* states) const {
    for_parts([&](int64_t index, int64_t at, Scratch& scratch) {
      const State* const state = states + (blocks_.tasks - 1 - index);
      const Block b = blocks_.block(blocks_.tasks - 1 - index);
      if (scratch.expanded != state) expand(b, state->coefficients, scratch);
      scratch.expanded = state;
      normalize(b, parts_ - 1 - at, scratch);
    });
  }

  template <class Fn>
  void for_parts(const Fn& fn) const {
    parallel_for(blocks_.tasks * parts_, plan_.compulsory_bytes(), [&](int64_t begin, int64_t end) {
      const std::unique_ptr<Scratch> scratch(new Scratch);
      for (int64_t i = begin; i < end; ++i) fn(i / parts_, i % parts_, *scratch);
    });
  }

  static constexpr float kOne = 1, kZero = 0;

  const MvnPlan& plan_;
  const Blocks blocks_;
  const T* x_;
  T* y_;
  Parameter<T> scale_, bias_;
  int64_t part_rows_, parts_;
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
