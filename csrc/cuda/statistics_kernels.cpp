// The kernels of statistics, first choice first: those of normalization, which takes the same sums.
#include "cuda/statistics_kernels.h"

#include <iterator>

namespace cudml::cuda {
namespace {

bool has_elements(const StatisticsPlan& plan, const Situation&) { return plan.group_size > 0; }

bool is_tile_type(const StatisticsPlan& plan, const Situation&) {
  return plan.dtype != Dtype::float64;
}

bool are_rows(const StatisticsPlan& plan, const Situation& situation) {
  return can_take(MvnKernel::warp, statistics_groups(plan), situation);
}

bool are_columns(const StatisticsPlan& plan, const Situation& situation) {
  return can_take(MvnKernel::columns, statistics_groups(plan), situation);
}

/// Also of short groups, one by one.
bool is_splittable(const StatisticsPlan& plan, const Situation&) {
  return are_parts_countable(statistics_groups(plan));
}

template <StatisticsKernel kKernel>
Geometry geometry_of(const StatisticsPlan& plan, const Situation& situation) {
  const MvnPlan groups = statistics_groups(plan);
  const MvnKernel kernel = normalization_of(kKernel, groups);
  return mvn_kernels()[size_t(kernel)].geometry(groups, situation);
}

constexpr Predicate<StatisticsPlan> kHasElements = {"groups have elements", has_elements};
constexpr Predicate<StatisticsPlan> kIsTileType = {"elements are float32, float16 or bfloat16",
                                                   is_tile_type};

constexpr Kernel<StatisticsPlan> kKernels[] = {
    {"statistics_rows",
     {kHasElements,
      kIsTileType,
      {"a group is a row, or several long ones, and a warp's registers hold it", are_rows}},
     geometry_of<StatisticsKernel::rows>},
    {"statistics_columns",
     {kHasElements,
      kIsTileType,
      {"a group's elements, or pieces of at most 64, stand apart; rows and columns stay below "
       "2^30, blocks and threads that join parts below 2^31",
       are_columns}},
     geometry_of<StatisticsKernel::columns>},
    {"statistics_split",
     {kHasElements,
      {"there are fewer than 2^26 groups of fewer than 2^30 elements, in fewer than 2^31 parts",
       is_splittable}},
     geometry_of<StatisticsKernel::split>},
    {"statistics_generic", {}, geometry_of<StatisticsKernel::generic>},
};
static_assert(std::size(kKernels) == size_t(StatisticsKernel::count));

}  // namespace

MvnPlan statistics_groups(const StatisticsPlan& plan) {
  MvnPlan groups;
  groups.dtype = plan.dtype;
  groups.use_mean = plan.use_mean;
  groups.has_mean_result = true;
  groups.groups = plan.groups;
  groups.group_size = plan.group_size;
  const auto axis_of = [](const StatisticsPlan::Axis& axis) {
    const int64_t x = axis.stride[StatisticsPlan::kX];
    return MvnAxis{axis.size, x, x, 0, 0};
  };
  for (int d = 0; d < plan.kept_rank; ++d) groups.kept[groups.kept_rank++] = axis_of(plan.kept[d]);
  for (int d = 0; d < plan.reduced_rank; ++d)
    groups.reduced[groups.reduced_rank++] = axis_of(plan.reduced[d]);
  return groups;
}

MvnKernel normalization_of(StatisticsKernel kernel, const MvnPlan& groups) {
  switch (kernel) {
    case StatisticsKernel::rows:
      return groups.group_size <= kMvnMostShortRow ? MvnKernel::rows : MvnKernel::warp;
    case StatisticsKernel::columns: return MvnKernel::columns;
    case StatisticsKernel::split: return MvnKernel::split;
    default: return MvnKernel::generic;
  }
}

Kernels<StatisticsPlan> statistics_kernels() { return kKernels; }

}  // namespace cudml::cuda
