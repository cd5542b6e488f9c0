// Statistics in columns: one row holds elements of many groups, and all their sums advance at once.
#include "cpu/statistics/columns.h"

#include <memory>

#include "cpu/memory/tuning.h"
#include "cpu/mvn/column_moments.h"
#include "cpu/simd/convert.h"
#include "cpu/statistics/results.h"
#include "cpu/threads/arena.h"
#include "cpu/threads/interrupt.h"
#include "cpu/threads/parallel.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

using tuning::statistics::kLeastStep;

class Columns {
 public:
  using Axis = StatisticsPlan::Axis;

  Columns(const StatisticsPlan& plan, const Operands& operands)
      : plan_(plan),
        x_(static_cast<const double*>(operands.inputs[0])),
        results_(plan, operands),
        outer_rank_(std::max(plan.kept_rank - 1, 0)),
        columns_(plan.kept_rank > 0 ? plan.kept[outer_rank_] : Axis{}),
        across_((columns_.size + kWidth - 1) / kWidth),
        tasks_(plan.groups / columns_.size * across_),
        parts_((plan.group_size + kPartRows - 1) / kPartRows) {}

  void run() const {
    const bool are_few = tasks_ < 4 * num_threads() && num_threads() > 1;
    if (are_few && parts_ > 1) return run_in_parts();
    parallel_for(tasks_, plan_.compulsory_bytes(), [&](int64_t begin, int64_t end) {
      const Room<Scratch> scratch;
      const Room<ColumnMoments> moments;
      for (int64_t task = begin; task < end; ++task) {
        const Block b = block(task);
        *moments = part_moments(b, 0, *scratch);
        for (int64_t part = 1; part < parts_; ++part) {
          checkpoint();
          moments->add(part_moments(b, part, *scratch), b.width);
        }
        put(b, *moments);
      }
    });
  }

 private:
  /// Up to kWidth columns of one position of the outer kept dimensions.
  struct Block {
    GroupOffsets origin;
    int64_t width;
  };

  struct Scratch {
    alignas(64) double tile[kChunkRows * kWidth] = {};  // whole vectors are read: no garbage
    const double* row[kChunkRows];
  };

  Block block(int64_t task) const {
    const int64_t first = task % across_ * kWidth;
    GroupOffsets origin = GroupWalk(plan_.kept, outer_rank_, task / across_).offsets();
    origin.add(columns_, first);
    return {origin, std::min(kWidth, columns_.size - first)};
  }

  /// A row of x that can be read to whole vectors: in place, else in `buffer`.
  const double* row(const double* x, int64_t width, double* buffer) const {
    const int64_t stride = columns_.stride[StatisticsPlan::kX];
    if (stride == 1 && width % kDoubles == 0) return x;
    load_row<double>(buffer, x, stride, width);
    return buffer;
  }

  ColumnMoments part_moments(const Block& b, int64_t part, Scratch& scratch) const {
    ColumnMoments moments;
    const int64_t end = std::min(plan_.group_size, (part + 1) * kPartRows);
    GroupWalk at(plan_.reduced, plan_.reduced_rank, part * kPartRows, b.origin);
    for (int64_t first = part * kPartRows; first < end; first += kChunkRows) {
      const int64_t rows = std::min(kChunkRows, end - first);
      for (int64_t r = 0; r < rows; ++r, at.advance())
        scratch.row[r] =
            row(x_ + at.offsets()[StatisticsPlan::kX], b.width, scratch.tile + r * kWidth);
      moments.add(moments_of_rows(scratch.row, rows, b.width, plan_.use_mean), b.width);
    }
    return moments;
  }

  /// Few blocks of many rows: threads share each of them. The sums are the same as in run.
  void run_in_parts() const {
    using Sums = ColumnMoments;
    const std::unique_ptr<Sums[]> sums(new Sums[size_t(tasks_ * parts_)]);
    parallel_for(tasks_ * parts_, plan_.compulsory_bytes(), [&](int64_t begin, int64_t end) {
      const Room<Scratch> scratch;
      for (int64_t i = begin; i < end; ++i) {
        checkpoint();
        sums[size_t(i)] = part_moments(block(i / parts_), i % parts_, *scratch);
      }
    });
    for (int64_t task = 0; task < tasks_; ++task) {
      const Block b = block(task);
      Sums& own = sums[size_t(task * parts_)];
      for (int64_t part = 1; part < parts_; ++part)
        own.add(sums[size_t(task * parts_ + part)], b.width);
      put(b, own);
    }
  }

  void put(const Block& b, const ColumnMoments& moments) const {
    GroupOffsets group = b.origin;
    for (int64_t c = 0; c < b.width; ++c, group.add(columns_, 1))
      results_.put(group, moments.at(c));
  }

  const StatisticsPlan& plan_;
  const double* x_;
  StatisticsResults results_;
  int outer_rank_;
  const Axis columns_;
  int64_t across_, tasks_, parts_;
};

}  // namespace

// How many groups there are and where does not count: the order of additions follows from this.
bool are_statistics_apart(const StatisticsPlan& plan) {
  if (plan.reduced_rank == 0 || plan.group_size == 0) return false;
  const int64_t step = plan.reduced[plan.reduced_rank - 1].stride[StatisticsPlan::kX];
  return step >= kLeastStep || step == 0;
}

void statistics_columns(const StatisticsPlan& plan, const Operands& operands) {
  Columns(plan, operands).run();
}

}  // namespace cudml::cpu::CUDML_ISA
