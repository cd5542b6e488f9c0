// Statistics of normalization on the CPU: groups read along their own memory, in chunks that the
// cache holds.
#include "cpu/statistics/plain.h"

#include "cpu/mvn/moments.h"
#include "cpu/simd/convert.h"
#include "cpu/statistics/chunks.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

template <class T>
class PlainChunks {
 public:
  using A = Acc<T>;
  static constexpr int64_t kChunk = cpu::CUDML_ISA::kChunk<A>;
  using Scratch = Elements<A, size_t(kChunk)>;

  PlainChunks(const StatisticsPlan& plan, const Operands& operands)
      : plan_(plan),
        x_(static_cast<const T*>(operands.inputs[0])),
        rank_(std::max(plan.reduced_rank, 1)) {}

  Moments<A> of_chunk(const GroupOffsets& group, int64_t first, int64_t n, Scratch& row) const {
    return moments_of(pack(group, first, n, row.at), n, plan_.use_mean);
  }

 private:
  /// Positions [first, first + n) of a group as a packed row: in place where they are one.
  const A* pack(const GroupOffsets& group, int64_t first, int64_t n, A* row) const {
    constexpr int kX = StatisticsPlan::kX;
    const int64_t stride = plan_.reduced[rank_ - 1].stride[kX];
    if constexpr (std::is_same_v<T, A>)
      if (rank_ == 1 && stride == 1) return x_ + group[kX] + first;
    for_axis_pieces(plan_.reduced, rank_, group, first, n,
                    [&](const GroupOffsets& at, int64_t to, int64_t length) {
                      load_row<T>(row + to, x_ + at[kX], stride, length);
                    });
    return row;
  }

  const StatisticsPlan& plan_;
  const T* x_;
  int rank_;
};

}  // namespace

template <class T>
void statistics_plain(const StatisticsPlan& plan, const Operands& operands) {
  if (plan.is_empty()) return;
  Chunks(plan, StatisticsResults(plan, operands), PlainChunks<T>(plan, operands)).run();
}

template void statistics_plain<float>(const StatisticsPlan&, const Operands&);
template void statistics_plain<double>(const StatisticsPlan&, const Operands&);
template void statistics_plain<Float16>(const StatisticsPlan&, const Operands&);
template void statistics_plain<BFloat16>(const StatisticsPlan&, const Operands&);

}  // namespace cudml::cpu::CUDML_ISA
