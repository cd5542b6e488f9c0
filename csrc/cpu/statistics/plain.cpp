// Statistics of normalization on the CPU: groups read along their own memory, in chunks that the
// cache holds.
#include "cpu/statistics/plain.h"

#include <memory>

#include "cpu/mvn/moments.h"
#include "cpu/simd/convert.h"
#include "cpu/statistics/results.h"
#include "cpu/threads/arena.h"
#include "cpu/threads/interrupt.h"
#include "cpu/threads/parallel.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

template <class T>
class Groups {
 public:
  using A = Acc<T>;
  using Row = Elements<A, size_t(kChunk<A>)>;

  Groups(const StatisticsPlan& plan, const Operands& operands)
      : plan_(plan),
        x_(static_cast<const T*>(operands.inputs[0])),
        results_(plan, operands),
        rank_(std::max(plan.reduced_rank, 1)),
        chunks_((plan.group_size + kChunk<A> - 1) / kChunk<A>) {}

  void run() const {
    const bool are_few = plan_.groups < 4 * num_threads() && num_threads() > 1;
    if (are_few && chunks_ > 4) return run_in_parts();
    parallel_for(plan_.groups, plan_.compulsory_bytes(), [&](int64_t begin, int64_t end) {
      const Room<Row> row;
      GroupWalk group(plan_.kept, plan_.kept_rank, begin);
      Pace pace;
      for (int64_t g = begin; g < end; ++g, group.advance()) {
        pace.add(plan_.group_size);
        run_group(group.offsets(), row->at);
      }
    });
  }

 private:
  void run_group(const GroupOffsets& group, A* row) const {
    if (chunks_ == 0) return results_.put(group, 0, 0, 0);
    Moments<A> moments = moments_of_chunk(group, 0, row);
    Pace pace;
    for (int64_t i = 1; i < chunks_; ++i) {
      pace.add(kChunk<A>);
      moments = merge(moments, moments_of_chunk(group, i, row));
    }
    results_.put(group, moments);
  }

  Moments<A> moments_of_chunk(const GroupOffsets& group, int64_t index, A* row) const {
    const int64_t first = index * kChunk<A>, n = std::min(kChunk<A>, plan_.group_size - first);
    return moments_of(pack(group, first, n, row), n, plan_.use_mean);
  }

  /// Positions [first, first + n) of a group as a packed row: in place where they are one.
  const A* pack(const GroupOffsets& group, int64_t first, int64_t n, A* row) const {
    constexpr int kX = StatisticsPlan::kX;
    const int64_t stride = plan_.reduced[rank_ - 1].stride[kX];
    if constexpr (std::is_same_v<T, A>)
      if (rank_ == 1 && stride == 1) return x_ + group[kX] + first;
    for_strided_pieces(plan_.reduced, rank_, group, first, n,
                       [&](const GroupOffsets& at, int64_t to, int64_t length) {
                         load_row<T>(row + to, x_ + at[kX], stride, length);
                       });
    return row;
  }

  /// Few large groups: threads share each of them. The sums are the same as in run_group.
  void run_in_parts() const {
    const int64_t tasks = plan_.groups * chunks_;
    const std::unique_ptr<Moments<A>[]> parts(new Moments<A>[size_t(tasks)]);
    parallel_for(tasks, plan_.compulsory_bytes(), [&](int64_t begin, int64_t end) {
      const Room<Row> row;
      Pace pace;
      for (int64_t task = begin; task < end; ++task) {
        pace.add(kChunk<A>);
        const GroupWalk group(plan_.kept, plan_.kept_rank, task / chunks_);
        parts[size_t(task)] = moments_of_chunk(group.offsets(), task % chunks_, row->at);
      }
    });
    GroupWalk group(plan_.kept, plan_.kept_rank, 0);
    for (int64_t g = 0; g < plan_.groups; ++g, group.advance()) {
      const Moments<A>* const own = parts.get() + g * chunks_;
      Moments<A> moments = own[0];
      for (int64_t i = 1; i < chunks_; ++i) moments = merge(moments, own[i]);
      results_.put(group.offsets(), moments);
    }
  }

  const StatisticsPlan& plan_;
  const T* x_;
  StatisticsResults results_;
  int rank_;
  int64_t chunks_;
};

}  // namespace

template <class T>
void statistics_plain(const StatisticsPlan& plan, const Operands& operands) {
  if (!plan.is_empty()) Groups<T>(plan, operands).run();
}

template void statistics_plain<float>(const StatisticsPlan&, const Operands&);
template void statistics_plain<double>(const StatisticsPlan&, const Operands&);
template void statistics_plain<Float16>(const StatisticsPlan&, const Operands&);
template void statistics_plain<BFloat16>(const StatisticsPlan&, const Operands&);

}  // namespace cudml::cpu::CUDML_ISA
