// Normalization in columns: one row holds elements of many groups, and all their sums advance at
// once.
#include "cpu/mvn/columns.h"

#include <memory>
#include <numeric>

#include "cpu/memory/tuning.h"
#include "cpu/mvn/column_layout.h"
#include "cpu/mvn/column_moments.h"
#include "cpu/mvn/group_statistics.h"
#include "cpu/mvn/walk.h"
#include "cpu/simd/native.h"
#include "cpu/threads/arena.h"
#include "cpu/threads/interrupt.h"
#include "cpu/threads/parallel.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

using tuning::mvn::kFarColumns;
using tuning::mvn::kLeastStep;

struct ColumnNormalizer {
  alignas(64) double pivot[kWidth], delta[kWidth], factor[kWidth];

  ColumnNormalizer(const ColumnMoments& m, int64_t width, bool use_variance, double epsilon) {
    for (int64_t c = 0; c < width; ++c) {
      const Normalizer<double> n = normalizer_of(m.at(c), use_variance, epsilon);
      pivot[c] = n.pivot;
      delta[c] = n.delta;
      factor[c] = n.factor;
    }
  }

  double operator()(double x, int64_t c) const { return ((x - pivot[c]) - delta[c]) * factor[c]; }
};

class Columns {
 public:
  Columns(const MvnPlan& plan, const Operands& o)
      : plan_(plan),
        layout_(plan),
        columns_(layout_.columns),
        x_(static_cast<const double*>(o.inputs[0])),
        y_(static_cast<double*>(o.outputs[0])),
        scale_(o.inputs[1], plan.scale_dtype, &kOne),
        bias_(o.inputs[2], plan.bias_dtype, &kZero),
        statistics_(plan, o),
        rows_(plan.group_size / layout_.fold),
        width_(is_far() ? std::max(layout_.fold, kFarColumns) : block_width(layout_.fold)),
        blocks_((columns_.size + width_ - 1) / width_),
        tasks_(plan.groups * layout_.fold / columns_.size * blocks_),
        parts_((rows_ + kPartRows - 1) / kPartRows) {}

  void run() const {
    const bool are_few = tasks_ < 4 * num_threads() && num_threads() > 1;
    if (are_few && parts_ > 1) return run_in_parts();
    parallel_for(tasks_, plan_.compulsory_bytes(), [&](int64_t begin, int64_t end) {
      const Room<Scratch> scratch;
      for (int64_t task = begin; task < end; ++task) run_block(task, *scratch);
    });
  }

 private:
  /// Whole groups, and whole vectors where both fit, so that rows can be read in place.
  static int64_t block_width(int64_t fold) {
    const int64_t both = std::lcm(fold, kDoubles), step = both <= kWidth ? both : fold;
    return kWidth / step * step;
  }

  /// Whether groups are further apart than their elements: few are read side by side.
  bool is_far() const {
    return layout_.reduced_rank > 0 && columns_.x > plan_.reduced[layout_.reduced_rank - 1].x;
  }

  /// Up to width_ columns of one position of the outer kept dimensions.
  struct Block {
    Offsets origin;
    int64_t width;
  };

  struct Scratch {
    alignas(64) double tile[kChunkRows * kWidth] = {};  // whole vectors are read: no garbage
    alignas(64) double scale[kWidth], bias[kWidth];
    const double* row[kChunkRows];
  };

  Block block(int64_t task) const {
    const int64_t first = task % blocks_ * width_;
    Offsets origin = Walk(plan_.kept, layout_.outer_rank, task / blocks_).offsets();
    origin.add(columns_, first);
    return {origin, std::min(width_, columns_.size - first)};
  }

  /// A row of x that can be read to a multiple of `step` columns: in place, else in `buffer`.
  const double* row(const Offsets& at, int64_t width, int64_t step, double* buffer) const {
    if (columns_.x == 1 && width % step == 0) return x_ + at.x;
    load_row<double>(buffer, x_ + at.x, columns_.x, width);
    return buffer;
  }

  void run_block(int64_t task, Scratch& scratch) const {
    const Block b = block(task);
    const Room<ColumnMoments> moments;
    for (int64_t part = 0; part < parts_; ++part) {
      if (part > 0) checkpoint();
      moments->add(part_moments(b, part, scratch), b.width);
    }
    put_statistics(task, *moments);
    const ColumnNormalizer normalizer = normalizer_for(*moments, b.width);
    for (int64_t part = 0; part < parts_; ++part) {
      if (part > 0) checkpoint();
      normalize(b, part, normalizer, scratch);
    }
  }

  /// Few blocks of many rows: threads share each of them. The sums are the same as in run_block.
  void run_in_parts() const {
    using Sums = ColumnMoments;
    const std::unique_ptr<Sums[]> sums(new Sums[size_t(tasks_ * parts_)]);
    for_parts([&](const Block& b, int64_t task, int64_t part, Scratch& scratch) {
      sums[size_t(task * parts_ + part)] = part_moments(b, part, scratch);
    });
    for (int64_t task = 0; task < tasks_; ++task) {
      for (int64_t part = 1; part < parts_; ++part)
        sums[size_t(task * parts_)].add(sums[size_t(task * parts_ + part)], block(task).width);
      put_statistics(task, sums[size_t(task * parts_)]);
    }
    for_parts([&](const Block& b, int64_t task, int64_t part, Scratch& scratch) {
      normalize(b, part, normalizer_for(sums[size_t(task * parts_)], b.width), scratch);
    });
  }

  /// The statistics of a task's groups, where they are wanted.
  void put_statistics(int64_t task, const ColumnMoments& of) const {
    if (!statistics_.are_wanted()) return;
    const int64_t first = task / blocks_ * columns_.size + task % blocks_ * width_,
                  fold = layout_.fold, width = block(task).width;
    ColumnMoments moments = of;
    if (fold > 1) moments.join(fold, width);
    for (int64_t c = 0; c < width; c += fold) statistics_.put((first + c) / fold, moments.at(c));
  }

  ColumnNormalizer normalizer_for(const ColumnMoments& moments, int64_t width) const {
    ColumnMoments joined;
    if (layout_.fold > 1) (joined = moments).join(layout_.fold, width);
    return {layout_.fold > 1 ? joined : moments, width, plan_.use_variance, plan_.epsilon};
  }

  template <class Fn>
  void for_parts(const Fn& fn) const {
    parallel_for(tasks_ * parts_, plan_.compulsory_bytes(), [&](int64_t begin, int64_t end) {
      const Room<Scratch> scratch;
      for (int64_t i = begin; i < end; ++i) fn(block(i / parts_), i / parts_, i % parts_, *scratch);
    });
  }

  ColumnMoments part_moments(const Block& b, int64_t part, Scratch& scratch) const {
    ColumnMoments moments;
    const int64_t end = std::min(rows_, (part + 1) * kPartRows);
    Walk at(plan_.reduced, layout_.reduced_rank, part * kPartRows, b.origin);
    for (int64_t first = part * kPartRows; first < end; first += kChunkRows) {
      const int64_t rows = std::min(kChunkRows, end - first);
      for (int64_t r = 0; r < rows; ++r, at.advance())
        scratch.row[r] = row(at.offsets(), b.width, kDoubles, scratch.tile + r * kWidth);
      moments.add(moments_of_rows(scratch.row, rows, b.width, plan_.use_mean), b.width);
    }
    return moments;
  }

  void normalize(const Block& b, int64_t part, const ColumnNormalizer& normalizer,
                 Scratch& scratch) const {
    const int64_t end = std::min(rows_, (part + 1) * kPartRows);
    Walk at(plan_.reduced, layout_.reduced_rank, part * kPartRows, b.origin);
    const bool is_scale_common = is_common(&MvnAxis::scale),
               is_bias_common = is_common(&MvnAxis::bias);
    Operand<double> scale, bias;
    for (int64_t first = part * kPartRows, r = first; r < end; ++r, at.advance()) {
      const Offsets& o = at.offsets();
      if (r == first || !is_scale_common)
        scale = operand_of(scale_, o.scale, columns_.scale, b.width, scratch.scale);
      if (r == first || !is_bias_common)
        bias = operand_of(bias_, o.bias, columns_.bias, b.width, scratch.bias);
      write_row(plan_.activation, y_ + o.y, columns_.y, row(o, b.width, 1, scratch.tile), b.width,
                normalizer, scale, bias, scratch.tile + kWidth);
    }
  }

  /// Whether all rows share the values.
  bool is_common(int64_t MvnAxis::* stride) const {
    for (int d = 0; d < layout_.reduced_rank; ++d)
      if (plan_.reduced[d].*stride) return false;
    return true;
  }

  static constexpr double kOne = 1, kZero = 0;

  const MvnPlan& plan_;
  const Layout layout_;
  const MvnAxis& columns_;
  const double* x_;
  double* y_;
  Parameter<double> scale_, bias_;
  GroupStatistics statistics_;
  int64_t rows_, width_, blocks_, tasks_, parts_;
};

}  // namespace

bool are_columns_apart(const MvnPlan& plan) { return are_elements_apart(plan, kLeastStep); }

void mvn_columns(const MvnPlan& plan, const Operands& operands) { Columns(plan, operands).run(); }

}  // namespace cudml::cpu::CUDML_ISA
