// Groups that are read in chunks: the moments of each are merged in a fixed tree, whoever computes
// them.
#pragma once

#include <memory>

#include "cpu/statistics/results.h"
#include "cpu/threads/arena.h"
#include "cpu/threads/interrupt.h"
#include "cpu/threads/parallel.h"
#include "math/long_sum.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

/// Statistics of all groups. A source has a type A that moments are of, a type Scratch that a
/// thread has one of, the number kChunk of elements, and of_chunk(group, first, n, scratch), the
/// moments of elements [first, first + n) of a group.
template <class Source>
class Chunks {
 public:
  using A = typename Source::A;
  using Scratch = typename Source::Scratch;

  Chunks(const StatisticsPlan& plan, const StatisticsResults& results, const Source& source)
      : plan_(plan),
        results_(results),
        source_(source),
        chunks_((plan.group_size + Source::kChunk - 1) / Source::kChunk) {}

  void run() const {
    const bool are_few = plan_.groups < 4 * num_threads() && num_threads() > 1;
    if (are_few && chunks_ > 4) return run_in_parts();
    parallel_for(plan_.groups, plan_.compulsory_bytes(), [&](int64_t begin, int64_t end) {
      const Room<Scratch> scratch;
      GroupWalk group(plan_.kept, plan_.kept_rank, begin);
      Pace pace;
      for (int64_t g = begin; g < end; ++g, group.advance()) {
        pace.add(plan_.group_size);
        run_group(group.offsets(), *scratch);
      }
    });
  }

 private:
  void run_group(const GroupOffsets& group, Scratch& scratch) const {
    if (chunks_ == 0) return results_.put(group, 0, 0, 0);
    int64_t i = 0;
    Pace pace;
    results_.put(group, long_sum<Moments<A>>(chunks_, [&] {
                   pace.add(Source::kChunk);
                   return of_chunk(group, i++, scratch);
                 }));
  }

  Moments<A> of_chunk(const GroupOffsets& group, int64_t index, Scratch& scratch) const {
    const int64_t first = index * Source::kChunk;
    return source_.of_chunk(group, first, std::min(Source::kChunk, plan_.group_size - first),
                            scratch);
  }

  /// Few large groups: threads share each of them. The sums are the same as in run_group.
  void run_in_parts() const {
    const int64_t tasks = plan_.groups * chunks_;
    const std::unique_ptr<Moments<A>[]> parts(new Moments<A>[size_t(tasks)]);
    parallel_for(tasks, plan_.compulsory_bytes(), [&](int64_t begin, int64_t end) {
      const Room<Scratch> scratch;
      Pace pace;
      for (int64_t task = begin; task < end; ++task) {
        pace.add(Source::kChunk);
        const GroupWalk group(plan_.kept, plan_.kept_rank, task / chunks_);
        parts[size_t(task)] = of_chunk(group.offsets(), task % chunks_, *scratch);
      }
    });
    GroupWalk group(plan_.kept, plan_.kept_rank, 0);
    for (int64_t g = 0; g < plan_.groups; ++g, group.advance()) {
      const Moments<A>* own = parts.get() + g * chunks_;
      results_.put(group.offsets(), long_sum<Moments<A>>(chunks_, [&] { return *own++; }));
    }
  }

  const StatisticsPlan& plan_;
  const StatisticsResults& results_;
  const Source& source_;
  int64_t chunks_;
};

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
