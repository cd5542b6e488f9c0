// Statistics of groups whose elements stand apart: the first half of normalization by tiles.
#include "cpu/statistics/tiles.h"

#include "cpu/mvn/tile_states.h"
#include "cpu/mvn/tiles.h"
#include "cpu/statistics/results.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

/// The normalization that has these statistics: results are thought to stand as x does.
MvnPlan normalization_of(const StatisticsPlan& plan) {
  MvnPlan of;
  of.dtype = plan.dtype;
  of.use_mean = plan.use_mean;
  of.kept_rank = plan.kept_rank;
  of.reduced_rank = plan.reduced_rank;
  const auto axis = [](const StatisticsPlan::Axis& a) {
    const int64_t x = a.stride[StatisticsPlan::kX];
    return MvnAxis{a.size, x, x, 0, 0};
  };
  std::transform(plan.kept, plan.kept + plan.kept_rank, of.kept, axis);
  std::transform(plan.reduced, plan.reduced + plan.reduced_rank, of.reduced, axis);
  of.groups = plan.groups;
  of.group_size = plan.group_size;
  return of;
}

}  // namespace

bool are_statistics_tiled(const StatisticsPlan& plan) {
  return plan.group_size > 0 && are_columns_tiled(normalization_of(plan));
}

template <class T>
void statistics_tiles(const StatisticsPlan& plan, const Operands& operands) {
  const MvnPlan of = normalization_of(plan);
  Operands read;
  read.inputs[0] = operands.inputs[0];
  const TileLayout<T> layout(of, read);
  const TileStates<T> states(layout, plan.compulsory_bytes());
  const StatisticsResults results(plan, operands);
  const auto put = [&](const Blocks::Block& b, const BlockState& state) {
    GroupWalk group(plan.kept, plan.kept_rank, b.group);
    for (int64_t g = 0; g < layout.blocks.groups_of(b); ++g, group.advance())
      results.put(group.offsets(), state.sums.moments(of, g));
  };
  if (!states.are_shared())
    return states.for_blocks(
        [&](const Blocks::Block& b, const BlockState& state, TileScratch<T>&) { put(b, state); });
  const std::unique_ptr<BlockState[]> found = states.find_all();
  for (int64_t task = 0; task < layout.blocks.tasks; ++task)
    put(layout.blocks.block(task), found[size_t(task)]);
}

template void statistics_tiles<float>(const StatisticsPlan&, const Operands&);
template void statistics_tiles<Float16>(const StatisticsPlan&, const Operands&);
template void statistics_tiles<BFloat16>(const StatisticsPlan&, const Operands&);

}  // namespace cudml::cpu::CUDML_ISA
