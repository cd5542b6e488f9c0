// Normalization of groups whose elements stand apart, many columns at once, by explicit vectors.
#include "cpu/mvn/tiles.h"

#include <bit>
#include <memory>

#include "cpu/mvn/column_gather.h"
#include "cpu/mvn/column_states.h"
#include "cpu/threads/interrupt.h"
#include "cpu/threads/parallel.h"

namespace cudml::cpu::CUDML_ISA {

namespace {

constexpr int64_t kPartBytes = 1 << 18;  // of kFewColumns of x that one task sums
constexpr int64_t kGapBytes = 1 << 12;   // of x, from rows that are written to those read ahead
template <class T>
constexpr int64_t kRowsAtOnce = 16 / sizeof(T);
template <class T>
constexpr int64_t kFloatRows = 64 * kRowsAtOnce<T>;  // whose sums stay in float, in chains of 72
/// Whether runs have a loop of their own; for halves only in the widest vectors, as code is long.
template <class T>
constexpr bool kSumsRuns = !kIsHalf<T> || kHasLineVectors;

template <class T>
class Tiles {
 public:
  Tiles(const MvnPlan& plan, const Operands& o)
      : plan_(plan),
        blocks_(plan, sizeof(T), to_line(static_cast<T*>(o.outputs[0]))),
        in_(blocks_),
        x_(static_cast<const T*>(o.inputs[0])),
        y_(static_cast<T*>(o.outputs[0])),
        scale_(o.inputs[1], plan.scale_dtype, &kOne),
        bias_(o.inputs[2], plan.bias_dtype, &kZero),
        statistics_(plan, o) {
    row_ = blocks_.width * blocks_.repeat;
    const int64_t row_bytes = row_ * int64_t(sizeof(T));
    const int64_t step = blocks_.step * blocks_.repeat,
                  few_bytes = std::clamp<int64_t>(step, 1, kFewColumns) * int64_t(sizeof(T));
    part_rows_ = (kPartBytes / few_bytes + kRowsAtOnce<T>) / kRowsAtOnce<T> * kRowsAtOnce<T>;
    parts_ = (blocks_.rows + part_rows_ - 1) / part_rows_;
    is_run_ = blocks_.is_run && row_bytes % 64 == 0;
    for (int d = 0; d < blocks_.layout.reduced_rank - 1; ++d)
      is_run_ &= plan.reduced[d].y * int64_t(sizeof(T)) % 64 == 0 &&
                 blocks_.stretch * row_bytes >= 2 * kRunAheadBytes;
    is_summed_as_run_ = kSumsRuns<T> && blocks_.is_even && step % kRunColumns == 0 &&
                        kRunColumns % blocks_.step == 0;
    is_streamed_ =
        !is_handed_out() &&
        (row_bytes >= 2048 || (row_bytes % 64 == 0 && (is_run_ || bytes_to_line(y_) == 0))) &&
        is_norm_streamed(plan.groups * plan.group_size * int64_t(sizeof(T)));
  }

  void run() const {
    if (blocks_.tasks < 4 * num_threads() && num_threads() > 1 && parts_ > 1) return run_in_parts();
    parallel_for(blocks_.tasks, plan_.compulsory_bytes(), [&](int64_t begin, int64_t end) {
      const std::unique_ptr<Scratch> scratch(new Scratch(*this));
      const std::unique_ptr<State> state(new State);
      for (int64_t task = begin; task < end; ++task)
        run_block(blocks_.block(task), *state, *scratch);
    });
  }

 private:
  using Block = Blocks::Block;
  using Sums = GroupSums<kMostColumns>;

  struct Scratch : BlockScratch {
    ColumnRoom<T> room;

    explicit Scratch(const Tiles& t)
        : room(t.in_.is_gathered || t.is_handed_out() ||
                       (t.is_summed_as_run_ && !t.blocks_.is_packed)
                   ? ColumnRows<T>::kRoom
                   : 0,
               t.in_.is_gathered || t.is_handed_out() ? kMostColumns : 0) {}
  };
  using State = BlockState;

  void run_block(const Block& b, State& state, Scratch& scratch) const {
    guess(b, state.sums, scratch);
    sum_block(b, state.sums, scratch);
    const int64_t groups = blocks_.groups_of(b);
    if (!state.finish(plan_, groups)) {
      sum_block(b, state.sums, scratch);
      state.finish_surely(plan_, groups);
    }
    state.put(blocks_, b, statistics_);
    expand(b, state, scratch);
    for (int64_t part = parts_; part-- > 0;) {
      if (parts_ > 1) checkpoint();
      normalize(b, part, scratch);
    }
  }

  /// Pivots from rows all over the block. As powers of two of numbers are averaged, the guess at
  /// the mean of a constant group is exact.
  void guess(const Block& b, Sums& sums, Scratch& s) const {
    const int64_t groups = blocks_.groups_of(b), fold = blocks_.layout.fold();
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
        const T* x = in_.at(b, x_ + at.x, 1, s.room.x.get());
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
    blocks_.spread(b, sums.guess, scratch.guess);
    for (int64_t part = 0; part < parts_; ++part) {
      if (part > 0) checkpoint();
      sum_part(b, part, scratch);
      for (int64_t g = 0; g < groups; ++g) sums.sum[g] += scratch.wide_sum[g];
      for (int64_t g = 0; g < groups; ++g) sums.square[g] += scratch.wide_square[g];
    }
  }

  /// Sums of each group over the part's rows about scratch.guess, in wide_sum and wide_square.
  void sum_part(const Block& b, int64_t part, Scratch& s) const {
    std::fill_n(s.wide_sum, used(b), 0.0);
    std::fill_n(s.wide_square, used(b), 0.0);
    const int64_t end = std::min(blocks_.rows, (part + 1) * part_rows_);
    if constexpr (kSumsRuns<T>)
      if (is_summed_as_run_) sum_as_run(b, part * part_rows_, end, s);
    for (int64_t first = part * part_rows_; !is_summed_as_run_ && first < end;
         first += kFloatRows<T>) {
      clear(b, s);
      sum_rows(b, first, std::min(end, first + kFloatRows<T>), s);
      s.widen(b.width * blocks_.repeat);
    }
    blocks_.join(b, s.wide_sum);
    blocks_.join(b, s.wide_square);
  }

  /// The same of rows [first, end) that make up a run, or would if all columns were the plan's.
  void sum_as_run(const Block& b, int64_t first, int64_t end, Scratch& s) const {
    const T* x = x_ + blocks_.at(b, first).x;
    const int64_t n = elements(b, first, end), whole = n - n % kRunColumns;
    if (!blocks_.is_packed) return in_.add_as_run(b, x, n / b.width, s, s.room.x.get());
    for (int64_t i = 0; i < whole; i += kRunLength) {
      sum_run(x + i, std::min(kRunLength, whole - i), s.guess, s.sum, s.square);
      s.widen(kRunColumns);
    }
    if (whole == n) return;
    std::fill_n(s.sum, kRunColumns, 0.0f);
    std::fill_n(s.square, kRunColumns, 0.0f);
    x += whole;
    add_rows<1>(&x, n - whole, s.guess, s.sum, s.square);
    s.widen(kRunColumns);
  }

  void sum_rows(const Block& b, int64_t first, int64_t end, Scratch& s) const {
    const T* x[kRowsAtOnce<T>];
    int64_t held = 0;
    blocks_.for_rows(b, first, end, [&](int64_t row, const Offsets& at) {
      const bool is_last = row == blocks_.rows - 1;
      const T* here = in_.at(b, x_ + at.x, blocks_.repeats_of(row), s.room.x.get(), held);
      if (is_last) return in_.template add<1>(b, &here, blocks_.last_repeat, s);
      x[held++] = here;
      if (held < kRowsAtOnce<T>) return;
      held = 0;
      const int64_t width = b.width * blocks_.repeat, size = sizeof(T);
      const T* far = in_.is_gathered
                         ? nullptr
                         : ahead(b, row - kRowsAtOnce<T> + 1, x[0], kAheadBytes, kRowsAtOnce<T>);
      in_.template add<kRowsAtOnce<T>>(
          b, x, blocks_.repeat, s,
          {reinterpret_cast<const char*>(far), width * size, (blocks_.row_step() - width) * size});
    });
    for (int64_t i = 0; i < held; ++i) in_.template add<1>(b, x + i, blocks_.repeat, s);
  }

  /// What stands `bytes` or more after a row at x, or null, of which `count` rows are to be read.
  const T* ahead(const Block& b, int64_t row, const T* x, int64_t bytes, int64_t count = 1) const {
    constexpr int64_t kWorthBytes = 1024;  // what it takes to find rows of several stretches
    const int64_t row_bytes = row_ * int64_t(sizeof(T)), far = bytes / row_bytes + 1;
    if (row + far + count > blocks_.rows) return nullptr;
    if (blocks_.stretch == blocks_.rows) return x + far * blocks_.row_step();
    return row_bytes >= kWorthBytes ? x_ + blocks_.at(b, row + far).x : nullptr;
  }

  void expand(const Block& b, const State& state, Scratch& s) const {
    if (!blocks_.is_cross) {
      fill(b, scale_, &MvnAxis::scale, b.origin.scale, s.scale);
      fill(b, bias_, &MvnAxis::bias, b.origin.bias, s.bias);
    }
    s.expand(blocks_, b, state.coefficients, plan_.activation, head(y_ + b.origin.y) % b.width);
    s.expanded = &state;
  }

  void fill(const Block& b, const Parameter<T>& p, int64_t MvnAxis::* stride, int64_t offset,
            float* row) const {
    const int64_t fold = blocks_.layout.fold(), column = blocks_.layout.inner.*stride,
                  group = blocks_.layout.groups.*stride;
    if (column == 0 && group == 0) return std::fill_n(row, b.width, p.at(offset)), void();
    if (fold == 1) return p.copy(offset, group, b.width, row), void();
    if (group == fold * column) return p.copy(offset, column, b.width, row), void();
    for (int64_t g = 0; g < blocks_.groups_of(b); ++g)
      for (int64_t c = 0; c < fold; ++c) row[g * fold + c] = p.at(offset + g * group + c * column);
  }

  /// Elements before the first row of a run: rows then begin lines, and so do the formula's.
  int64_t head(const T* y) const { return is_run_ && is_streamed_ ? to_line(y) : 0; }

  /// Parts are written from the last one on: what was read last may still be in the caches.
  void normalize(const Block& b, int64_t part, Scratch& s) const {
    const int64_t first = part * part_rows_, end = std::min(blocks_.rows, first + part_rows_);
    if (is_run_) return normalize_runs(b, first, end, s);
    blocks_.for_rows(b, first, end, [&](int64_t row, const Offsets& at) {
      const int64_t width = blocks_.row_width(b, row);
      if (in_.is_gathered || is_handed_out()) return hand_out(b, at, blocks_.repeats_of(row), s);
      const Flow<T> flow = {is_streamed_, ahead(b, row, x_ + at.x, kGapBytes)};
      write_row(b, at, y_ + at.y, x_ + at.x, width, s, flow);
    });
  }

  /// Whether results are computed elsewhere: y's columns stand apart, or rows of several do.
  bool is_handed_out() const {
    return !blocks_.layout.are_packed(&MvnAxis::y) || (blocks_.repeat > 1 && !blocks_.is_run);
  }

  /// `repeat` of the plan's rows, from and to where they stand apart.
  void hand_out(const Block& b, const Offsets& at, int64_t repeat, Scratch& s) const {
    const bool is_alone = !in_.is_gathered && (repeat == 1 || blocks_.is_packed);
    T* const y = s.room.y.get();
    const T* x = x_ + at.x;
    if (!is_alone) in_.gather(b, x, repeat, s.room.x.get());
    write_row(b, at, y, is_alone ? x : s.room.x.get(), b.width * repeat, s, {});
    in_.hand_out(b, y, repeat, y_ + at.y);
  }

  void write_row(const Block& b, const Offsets& at, T* y, const T* x, int64_t width, Scratch& s,
                 Flow<T> flow) const {
    const MvnAxis &inner = blocks_.layout.inner, &groups = blocks_.layout.groups;
    if (!blocks_.is_cross) return write(y, x, width, 0, s, flow);
    if (inner.scale || inner.bias || groups.scale || groups.bias) {
      fill(b, scale_, &MvnAxis::scale, at.scale, s.scale);
      fill(b, bias_, &MvnAxis::bias, at.bias, s.bias);
      return apply_activated(plan_.activation, y, x, width,
                             GeneralFormula{s.pivot, s.factor, s.shift, s.scale, s.bias}, flow);
    }
    const Floats scale = broadcast(scale_.at(at.scale)), bias = broadcast(bias_.at(at.bias));
    if (!s.are_near)
      return apply_activated(plan_.activation, y, x, width,
                             CrossFormula{s.pivot, s.factor, s.shift, scale, bias}, flow);
    apply_common(plan_.activation, y, x, width, NearCrossFormula{s.factor, s.shift, scale, bias},
                 flow);
  }

  /// The same where rows follow each other: after the head of a stretch all of them begin lines,
  /// which are then written whole.
  void normalize_runs(const Block& b, int64_t first, int64_t end, const Scratch& s) const {
    for (int64_t row = first, stop; row < end; row = stop) {
      stop = std::min(end, row - row % blocks_.stretch + blocks_.stretch);
      const int64_t next = stop < end ? stop : first - part_rows_;  // the part before this one
      const Offsets at = blocks_.at(b, row);
      for_run(y_ + at.y, x_ + at.x, elements(b, row, stop), row_, head(y_ + at.y),
              next < 0 ? nullptr : x_ + blocks_.at(b, next).x,
              [&](T* y, const T* x, int64_t n, int64_t c, const T* ahead) {
                write(y, x, n, c, s, {is_streamed_, ahead});
              });
    }
  }

  /// Elements of rows [first, end) of a block.
  int64_t elements(const Block& b, int64_t first, int64_t end) const {
    return (end - first - 1) * b.width * blocks_.repeat + blocks_.row_width(b, end - 1);
  }

  /// n results by the formula's columns from c on.
  void write(T* y, const T* x, int64_t n, int64_t c, const Scratch& s, Flow<T> flow) const {
    if (s.are_near)
      apply_columns(plan_.activation, y, x, n, NearColumnFormula{s.factor + c, s.shift + c}, flow);
    else
      apply_activated(
          plan_.activation, y, x, n,
          GeneralFormula{s.pivot + c, s.factor + c, s.shift + c, s.scale + c, s.bias + c}, flow);
  }

  /// Few blocks of many rows: threads share each of them. The sums are the same as in run_block.
  void run_in_parts() const {
    const std::unique_ptr<State[]> states(new State[size_t(blocks_.tasks)]);
    const std::unique_ptr<double[]> sums(
        new double[size_t(2 * blocks_.tasks * parts_ * blocks_.width)]);
    parallel_for(blocks_.tasks, plan_.compulsory_bytes(), [&](int64_t begin, int64_t end) {
      const std::unique_ptr<Scratch> scratch(new Scratch(*this));
      for (int64_t task = begin; task < end; ++task)
        guess(blocks_.block(task), states[size_t(task)].sums, *scratch);
    });
    sum_parts(states.get(), sums.get());
    bool is_good = true;
    for (int64_t task = 0; task < blocks_.tasks; ++task) {
      State& state = states[size_t(task)];
      std::fill_n(state.is_bad, blocks_.width, false);
      is_good &= state.finish(plan_, blocks_.groups_of(blocks_.block(task)));
    }
    if (!is_good) {
      sum_parts(states.get(), sums.get());
      for (int64_t task = 0; task < blocks_.tasks; ++task)
        states[size_t(task)].finish_surely(plan_, blocks_.groups_of(blocks_.block(task)));
    }
    for (int64_t task = 0; task < blocks_.tasks; ++task)
      states[size_t(task)].put(blocks_, blocks_.block(task), statistics_);
    normalize_parts(states.get());
  }

  void sum_parts(State* states, double* sums) const {
    for_parts([&](int64_t task, int64_t part, Scratch& scratch) {
      const Block b = blocks_.block(task);
      blocks_.spread(b, states[task].sums.guess, scratch.guess);
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
      if (scratch.expanded != state) expand(b, *state, scratch);
      normalize(b, parts_ - 1 - at, scratch);
    });
  }

  template <class Fn>
  void for_parts(const Fn& fn) const {
    parallel_for(blocks_.tasks * parts_, plan_.compulsory_bytes(), [&](int64_t begin, int64_t end) {
      const std::unique_ptr<Scratch> scratch(new Scratch(*this));
      for (int64_t i = begin; i < end; ++i) fn(i / parts_, i % parts_, *scratch);
    });
  }

  static constexpr float kOne = 1, kZero = 0;

  const MvnPlan& plan_;
  const Blocks blocks_;
  const ColumnRows<T> in_;
  const T* x_;
  T* y_;
  Parameter<T> scale_, bias_;
  GroupStatistics statistics_;
  int64_t row_, part_rows_, parts_;  // elements of a row; rows of a part
  bool is_run_, is_summed_as_run_, is_streamed_;
};

}  // namespace

bool are_columns_tiled(const MvnPlan& plan) { return are_elements_apart(plan, 2); }

template <class T>
void mvn_tiles(const MvnPlan& plan, const Operands& operands) {
  Tiles<T>(plan, operands).run();
}

template void mvn_tiles<float>(const MvnPlan&, const Operands&);
template void mvn_tiles<Float16>(const MvnPlan&, const Operands&);
template void mvn_tiles<BFloat16>(const MvnPlan&, const Operands&);

}  // namespace cudml::cpu::CUDML_ISA
