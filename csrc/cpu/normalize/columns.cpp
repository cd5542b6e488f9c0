// Normalization with given statistics of columns: what normalizing needs of each position is
// computed once for many rows.
#include "cpu/normalize/columns.h"

#include <numeric>

#include "cpu/isa/processor.h"
#include "cpu/memory/spread.h"
#include "cpu/memory/tuning.h"
#include "cpu/normalize/formulas.h"
#include "cpu/normalize/given.h"
#include "cpu/threads/arena.h"
#include "cpu/threads/interrupt.h"
#include "cpu/threads/parallel.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

using Axis = NormalizePlan::Axis;

using tuning::normalize::kColumnsAtOnce;
using tuning::normalize::kShortestRow;

/// Whether all of an axis' rows take the same statistics, scale and bias.
bool is_shared(const Axis& rows) {
  return rows.stride[NormalizePlan::kMean] == 0 && rows.stride[NormalizePlan::kVariance] == 0 &&
         rows.stride[NormalizePlan::kScale] == 0 && rows.stride[NormalizePlan::kBias] == 0;
}

/// Elements of short packed pieces, one behind the other, which share everything: a row consists of
/// them. 1 where there are none.
int64_t fold_of(const NormalizePlan& plan) {
  if (plan.rank < 2) return 1;
  const Axis &piece = plan.axis[plan.rank - 1], &pieces = plan.axis[plan.rank - 2];
  const auto is_packed = [&](NormalizePlan::Tensor t) {
    return piece.stride[t] == 1 && pieces.stride[t] == piece.size;
  };
  const bool are_short = piece.size < kShortestRow && is_shared(piece);
  return are_short && is_packed(NormalizePlan::kX) && is_packed(NormalizePlan::kY) ? piece.size : 1;
}

/// Dimensions up to the one that statistics differ along.
int rank_of(const NormalizePlan& plan) { return plan.rank - (fold_of(plan) > 1); }

/// The axis of rows beside each other that share everything: of size 1 if there is none.
Axis rows_of(const NormalizePlan& plan) {
  const int rank = rank_of(plan);
  return rank > 1 && is_shared(plan.axis[rank - 2]) ? plan.axis[rank - 2] : Axis{};
}

bool follow_each_other(const Axis& rows, int64_t width) {
  return rows.size > 1 && rows.stride[NormalizePlan::kX] == width &&
         rows.stride[NormalizePlan::kY] == width;
}

template <class T>
class Columns {
 public:
  using A = Acc<T>;
  using Plan = NormalizePlan;

  Columns(const Plan& plan, const Operands& o)
      : plan_(plan),
        x_(static_cast<const T*>(o.inputs[0])),
        y_(static_cast<T*>(o.outputs[0])),
        scale_(o.inputs[3], plan.scale_dtype, &kOne),
        bias_(o.inputs[4], plan.bias_dtype, &kZero),
        given_(plan, o),
        inner_(plan.axis[rank_of(plan) - 1]),
        rows_(rows_of(plan)),
        outer_rank_(rank_of(plan) - (rows_.size > 1 ? 2 : 1)),
        fold_(fold_of(plan)),
        period_(inner_.size * fold_),
        width_(period_),
        end_(rows_.size * period_),
        has_delta_(plan.has_mean && plan.mean_dtype == Dtype::float64) {
    do_follow_ = follow_each_other(rows_, period_);
    is_joined_ = do_follow_ && period_ <= most_joined(plan);
    if (is_joined_) join_rows(most_joined(plan));
    blocks_ = is_joined_ ? 1 : (width_ + kColumnsAtOnce - 1) / kColumnsAtOnce;
    turn_ =
        std::max<int64_t>(tuning::normalize::kColumnsTask / std::min(width_, kColumnsAtOnce), 1);
    turns_ = (rows_.size + turn_ - 1) / turn_;
    // Pieces of rows are not foreseen: their lines would be read as they are written.
    const int64_t bytes = plan.elements * int64_t(sizeof(T));
    is_streamed_ = (is_joined_ ? is_copy_streamed(bytes) : is_norm_streamed(bytes)) &&
                   is_given_streamed(plan, x_, y_, do_follow_);
    phase_ = -head(y_) & (kConstantsOfLine - 1);
  }

  void run() const {
    const int64_t outer = plan_.elements / end_;
    parallel_for(outer * blocks_ * turns_, plan_.compulsory_bytes(),
                 [&](int64_t begin, int64_t end) {
                   const Room<Buffers> buffers;
                   Pace pace;
                   for (int64_t task = begin; task < end; ++task) {
                     pace.add(tuning::normalize::kColumnsTask);
                     run_task(task, *buffers);
                   }
                 });
  }

 private:
  static constexpr int64_t kLine = 64 / int64_t(sizeof(T));
  static constexpr int64_t kMostJoined =
      std::is_same_v<A, float> ? tuning::normalize::kMostJoined : kColumnsAtOnce;
  static constexpr int64_t kConstantsOfLine = 64 / int64_t(sizeof(A));
  /// And what a line has beyond a block, twice where that is the next row's begin, and before its
  /// first vector.
  static constexpr int64_t kRoom = kMostJoined + 2 * kLine + kConstantsOfLine;

  /// What normalizing needs of some columns, from element phase_ on. Its rows begin at different
  /// places of a page.
  struct Buffers {
    alignas(64) A pivot[kRoom], delta[kRoom], factor[kRoom], scale[kRoom], bias[kRoom];
    NormalizeOffsets at;  // of its first column
    int64_t count = 0;

    bool are_of(const NormalizeOffsets& o, int64_t n) const {
      return n == count && o.are_same(at, Plan::kMean, Plan::kTensors);
    }
  };

  /// Columns of rows that follow each other and are joined. Of a large result they are more, since
  /// a half of one is found late in memory, if what belongs to them leaves room in the first cache.
  static int64_t most_joined(const Plan& plan) {
    const bool has_room = 4 * kMostJoined * int64_t(sizeof(A)) < processor.level1_bytes;
    const bool is_large = is_copy_streamed(plan.elements * int64_t(sizeof(T)));
    return is_large && has_room ? kMostJoined : kColumnsAtOnce;
  }

  /// Rows that follow each other are taken together, a few as one: so many, if they may, that the
  /// next ones begin where the constants' lines do, too.
  void join_rows(int64_t most) {
    const int64_t few = (kColumnsAtOnce / 2 + period_ - 1) / period_,
                  unit = kConstantsOfLine / std::gcd(kConstantsOfLine, period_),
                  even = (few + unit - 1) / unit * unit;
    width_ *= even * period_ <= std::min(most, end_) ? even : few;
    rows_.size = (end_ + width_ - 1) / width_;
    rows_.stride[Plan::kX] = rows_.stride[Plan::kY] = width_;
  }

  void run_task(int64_t task, Buffers& b) const {
    const int64_t block = task / turns_, first = task % turns_ * turn_;
    const NormalizeOffsets at =
        StridedWalk<Plan::kTensors>(plan_.axis, outer_rank_, block / blocks_).offsets();
    const int64_t column = block % blocks_ * kColumnsAtOnce;
    fill(at, column, b);
    const GivenPositions<A> formula = {b.pivot + phase_, b.delta + phase_, b.factor + phase_,
                                       b.scale + phase_, b.bias + phase_};
    for (int64_t r = first; r < std::min(first + turn_, rows_.size); ++r) {
      const T* const x = x_ + at[Plan::kX] + r * rows_.stride[Plan::kX] + column;
      T* const y = y_ + at[Plan::kY] + r * rows_.stride[Plan::kY] + column;
      write_row_of(y, x, r, column, formula);
    }
  }

  /// A block's columns of row r, from the first line of y in them to the first one behind them:
  /// where rows follow each other, one that the next row begins in.
  void write_row_of(T* y, const T* x, int64_t r, int64_t column, const GivenPositions<A>& f) const {
    const int64_t whole = (do_follow_ ? end_ - r * width_ : width_) - column;
    const int64_t width = is_joined_ ? width_ : std::min(kColumnsAtOnce, width_ - column);
    const bool is_first = column == 0 && (r == 0 || !do_follow_);
    const int64_t begin = is_first ? 0 : std::min(whole, head(y)),
                  end = whole <= width ? whole : std::min(whole, width + head(y + width));
    const GivenPositions<A> from = {f.pivot + begin, f.delta + begin, f.factor + begin,
                                    f.scale + begin, f.bias + begin};
    const Flow<T> flow{is_streamed_, ahead_of(x + begin)};
    if constexpr (std::is_same_v<A, float>)
      if (!has_delta_)
        return apply_given(plan_.activation, y + begin, x + begin, end - begin,
                           GivenNearPositions(from), flow);
    apply_given(plan_.activation, y + begin, x + begin, end - begin, from, flow);
  }

  /// What is read while a block's columns from x on are written: those of the next row, or, as rows
  /// that follow each other are read on, what memory sends meanwhile.
  const T* ahead_of(const T* x) const {
    if (!is_joined_) return x + rows_.stride[Plan::kX];
    return is_streamed_ ? x + tuning::normalize::kRowAheadBytes / int64_t(sizeof(T)) : nullptr;
  }

  int64_t head(const T* y) const {
    return is_streamed_ ? bytes_to_line(y) / int64_t(sizeof(T)) : 0;
  }

  /// Columns from `column` on, as many as there is room for, unless they are there already.
  void fill(const NormalizeOffsets& row, int64_t column, Buffers& b) const {
    NormalizeOffsets at = row;
    at.add(inner_, column / fold_);
    const int64_t n = std::min(is_joined_ ? period_ : kColumnsAtOnce + kLine, period_ - column);
    if (b.are_of(at, n)) return;
    b.at = at;
    b.count = n;
    fill_part(at, column % fold_, n, phase_, b);
    if (!is_joined_) {
      if (do_follow_ && column + n == period_) fill_part(row, 0, kLine, phase_ + n, b);
      return;
    }
    for (A* const of : {b.pivot, b.delta, b.factor, b.scale, b.bias})
      for (A* row = of + phase_ + n; row < of + phase_ + width_ + kLine; ++row) *row = row[-n];
  }

  /// n columns, the first of which is element `skip` of its piece, in the buffers from element i
  /// on.
  void fill_part(const NormalizeOffsets& at, int64_t skip, int64_t n, int64_t i, Buffers& b) const {
    const int64_t pieces = (skip + n - 1) / fold_ + 1;
    given_.fill(at, inner_, pieces, b.pivot + i, b.delta + i, b.factor + i);
    fill_parameter(scale_, at[Plan::kScale], inner_.stride[Plan::kScale], pieces, b.scale + i);
    fill_parameter(bias_, at[Plan::kBias], inner_.stride[Plan::kBias], pieces, b.bias + i);
    if (fold_ == 1) return;
    for (A* const of : {b.pivot, b.delta, b.factor, b.scale, b.bias})
      spread(of + i, fold_, skip, n);
  }

  static void fill_parameter(const Parameter<T>& p, int64_t offset, int64_t stride, int64_t n,
                             A* row) {
    if (stride == 0)
      std::fill_n(row, n, p.at(offset));
    else
      p.copy(offset, stride, n, row);
  }

  static constexpr A kOne = 1, kZero = 0;

  const Plan& plan_;
  const T* x_;
  T* y_;
  Parameter<T> scale_, bias_;
  GivenStatistics<A> given_;
  const Axis& inner_;
  Axis rows_;  // those that share everything, or a few of them as one
  int outer_rank_;
  int64_t fold_;            // columns beside each other that share everything
  int64_t period_, width_;  // columns after which statistics repeat; of a row
  int64_t end_;             // elements of all rows
  bool has_delta_, do_follow_, is_joined_, is_streamed_;
  int64_t blocks_, turn_, turns_;  // of columns; rows of a task; tasks of a block
  int64_t phase_;  // of the constants, whose vectors are to be loaded as whole lines
};

}  // namespace

bool are_statistics_along(const NormalizePlan& plan) {
  if (plan.rank == 0) return false;
  if (fold_of(plan) > 1) return true;
  const Axis& inner = plan.axis[plan.rank - 1];
  if (inner.stride[NormalizePlan::kX] != 1 || inner.stride[NormalizePlan::kY] != 1) return false;
  if (!inner.stride[NormalizePlan::kMean] && !inner.stride[NormalizePlan::kVariance]) return false;
  return inner.size >= kShortestRow || follow_each_other(rows_of(plan), inner.size);
}

template <class T>
void normalize_columns(const NormalizePlan& plan, const Operands& operands) {
  Columns<T>(plan, operands).run();
}

template void normalize_columns<float>(const NormalizePlan&, const Operands&);
template void normalize_columns<double>(const NormalizePlan&, const Operands&);
template void normalize_columns<Float16>(const NormalizePlan&, const Operands&);
template void normalize_columns<BFloat16>(const NormalizePlan&, const Operands&);

}  // namespace cudml::cpu::CUDML_ISA
