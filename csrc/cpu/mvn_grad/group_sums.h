// Sums over a group in two phases: parts of its own elements, cut at fixed places and added in
// their order, so that nothing beside the group has a say in its bits.
#pragma once

#include <memory>

#include "cpu/mvn_grad/cell_chunks.h"
#include "cpu/threads/parallel.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

template <class T>
class GroupSums {
 public:
  using A = Acc<T>;
  using Chunks = CellChunks<T>;
  using Rows = typename Chunks::Rows;
  using Sums = typename Chunks::Sums;

  GroupSums(const MvnGradPlan& plan, const Operands& operands)
      : plan_(plan),
        chunks_(plan, operands),
        totals_(plan, plan.is_empty() ? 0 : 1, operands),
        per_part_(kPartElements / std::clamp<int64_t>(plan.cell_size, 1, kGradChunk)) {
    for (int d = 0; d < plan.kept_rank; ++d) {
      const MvnGradAxis& a = plan.kept[d];
      Walked& walked = a.totals[0] || a.totals[1] ? groups_ : cells_;
      walked.count *= a.size;
      walked.axis[walked.rank++] = a;
    }
    steps_ = cells_.count * chunks_.count();
    parts_ = (steps_ + per_part_ - 1) / per_part_;
  }

  void run() const {
    if (!plan_.is_empty()) parts_ == 1 ? add_whole() : add_parts();
    totals_.finish();
  }

 private:
  static constexpr int64_t kPartElements = 16 * kGradChunk;

  /// Dimensions that tell groups apart, or the cells of a group.
  struct Walked {
    int rank = 0;
    int64_t count = 1;
    MvnGradAxis axis[kMaxRank];
  };

  void add_whole() const {
    for_groups(groups_.count, [&](int64_t begin, int64_t end) {
      const Room<Rows> rows;
      Pace pace;
      GradWalk group(groups_.axis, groups_.rank, begin);
      for (int64_t g = begin; g < end; ++g, group.advance()) {
        Sums sums;
        add_part(group.offsets(), 0, *rows, pace, sums);
        put(group.offsets(), sums);
      }
    });
  }

  void add_parts() const {
    const std::unique_ptr<Sums[]> sums(new Sums[size_t(groups_.count * parts_)]);
    for_groups(groups_.count * parts_, [&](int64_t begin, int64_t end) {
      const Room<Rows> rows;
      Pace pace;
      for (int64_t i = begin; i < end; ++i)
        add_part(origin(i / parts_), i % parts_, *rows, pace, sums[size_t(i)]);
    });
    for (int64_t g = 0; g < groups_.count; ++g) {
      Sums all;
      for (int64_t i = g * parts_; i < (g + 1) * parts_; ++i)
        for (int k = 0; k < 2; ++k) all.of[k].add(sums[size_t(i)].of[k]);
      put(origin(g), all);
    }
  }

  template <class Body>
  void for_groups(int64_t tasks, const Body& body) const {
    parallel_for(tasks, plan_.compulsory_bytes(), body);
  }

  GradOffsets origin(int64_t group) const {
    return GradWalk(groups_.axis, groups_.rank, group).offsets();
  }

  /// Chunk by chunk of the group's cells, one after the other.
  void add_part(const GradOffsets& group, int64_t part, Rows& rows, Pace& pace, Sums& sums) const {
    const int64_t first = part * per_part_, end = std::min(steps_, first + per_part_);
    GradWalk cell(cells_.axis, cells_.rank, first / chunks_.count(), group);
    typename Chunks::State state;
    for (int64_t step = first, i = first % chunks_.count(); step < end; ++step) {
      pace.add(std::min(plan_.cell_size, kGradChunk));
      if (step == first || i == 0) state = chunks_.given(cell.offsets());
      chunks_.add_sums(cell.offsets(), i, state, rows, sums);
      if (++i < chunks_.count()) continue;
      i = 0;
      cell.advance();
    }
  }

  void put(const GradOffsets& group, const Sums& sums) const {
    for (int k = 0; k < 2; ++k)
      if (totals_.is_wanted(k)) totals_.add_one(0, k, group.totals[k], sums.of[k].value());
  }

  const MvnGradPlan& plan_;
  const Chunks chunks_;
  const Totals<A> totals_;
  Walked groups_, cells_;
  int64_t per_part_, steps_, parts_;  // chunks of a part, and of a group; parts of a group
};

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
