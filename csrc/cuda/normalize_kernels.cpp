// The kernels of normalization with given statistics, first choice first, and how they cut the
// work. All of them give an element the same bits.
#include "cuda/normalize_kernels.h"

#include <algorithm>
#include <iterator>

#include "cuda/mvn_two_phase_kernels.h"
#include "math/moments.h"

namespace cudml::cuda {
namespace {

using Plan = NormalizePlan;

constexpr int64_t kLeastShared = 4;    // positions of a cell that is prepared
constexpr int64_t kLeastRun = 16;      // elements
constexpr int64_t kLeastSheet = 1024;  // of a block that does not fill its threads otherwise
constexpr int64_t kLeastGroup = 1024;  // the same of a group

bool is_tile_type(const Plan& plan, const Situation&) { return plan.dtype != Dtype::float64; }

bool varies(const Plan::Axis& axis, bool with_parameters) {
  return axis.stride[Plan::kMean] || axis.stride[Plan::kVariance] ||
         (with_parameters && (axis.stride[Plan::kScale] || axis.stride[Plan::kBias]));
}

bool has_runs(const Plan& plan, const Situation&) { return NormalizeSheets(plan).run >= kLeastRun; }

bool has_large_sheets(const Plan& plan, const Situation&) {
  const NormalizeSheets sheets(plan);
  return sheets.count == 1 || sheets.size >= kLeastSheet;
}

bool are_runs_indexable(const Plan& plan, const Situation&) {
  const NormalizeSheets sheets(plan);
  return sheets.size < kMvnOffsetLimit / 2 &&
         sheets.count * (sheets.size / sheets.run) < kMvnOffsetLimit &&
         sheets.count * sheets.parts < kMvnOffsetLimit &&
         NormalizeCells(plan, true).count < kMvnOffsetLimit;
}

bool are_columns(const Plan& plan, const Situation& situation) {
  return can_take(MvnKernel::columns, normalize_groups(plan), situation);
}

bool are_groups_long(const Plan& plan, const Situation&) {
  return normalize_groups(plan).group_size >= kLeastGroup;
}

bool is_splittable(const Plan& plan, const Situation&) {
  return are_parts_countable(normalize_groups(plan));
}

int64_t normalizer_bytes(const Plan& plan) {
  return plan.dtype == Dtype::float64 ? sizeof(Normalizer<double>) : sizeof(Normalizer<float>);
}

Geometry runs_geometry(const Plan& plan, const Situation&) {
  const NormalizeSheets sheets(plan);
  return {uint32_t(sheets.count * sheets.parts), uint32_t(kRunThreads), 0,
          NormalizeCells(plan, true).count * kRunCellBytes};
}

Geometry columns_geometry(const Plan& plan, const Situation&) {
  const MvnPlan groups = normalize_groups(plan);
  const MvnColumns c = mvn_apply_columns_of(groups);
  return {uint32_t(c.tiles * c.outer * c.parts), uint32_t(kMvnThreads), 0,
          groups.groups * normalizer_bytes(plan)};
}

Geometry split_geometry(const Plan& plan, const Situation&) {
  const MvnPlan groups = normalize_groups(plan);
  return {uint32_t(mvn_split_parts(groups).count * groups.groups), uint32_t(kMvnThreads), 0,
          groups.groups * normalizer_bytes(plan)};
}

Geometry generic_geometry(const Plan& plan, const Situation&) {
  const NormalizeCells cells(plan);
  const int64_t blocks = ceil_div(plan.elements, kTwoPhaseThreads);
  return {uint32_t(std::min(blocks, kMostTwoPhaseBlocks)), uint32_t(kTwoPhaseThreads), 0,
          are_cells_shared(plan, cells) ? cells.count * normalizer_bytes(plan) : 0};
}

constexpr Predicate<Plan> kIsTileType = {"elements are float32, float16 or bfloat16", is_tile_type};

constexpr Kernel<Plan> kKernels[] = {
    {"normalize_runs",
     {kIsTileType,
      {"at least 16 neighbours of x and of the result share all that is given", has_runs},
      {"such runs are packed, all of them or sheets of at least 1024 elements", has_large_sheets},
      {"sheets have fewer than 2^30 elements, and there are fewer than 2^31 runs",
       are_runs_indexable}},
     runs_geometry},
    {"normalize_columns",
     {kIsTileType,
      {"what shares statistics, or pieces of it of at most 64 elements, stands apart; rows and "
       "columns stay below 2^30, blocks and threads that would join parts below 2^31",
       are_columns}},
     columns_geometry},
    {"normalize_split",
     {{"at least 1024 elements share statistics", are_groups_long},
      {"there are fewer than 2^26 groups of fewer than 2^30 elements, in fewer than 2^31 parts",
       is_splittable}},
     split_geometry},
    {"normalize_generic", {}, generic_geometry},
};
static_assert(std::size(kKernels) == size_t(NormalizeKernel::count));

}  // namespace

NormalizeCells::NormalizeCells(const Plan& plan, bool with_parameters) {
  for (int d = 0; d < plan.rank; ++d) {
    const Plan::Axis& a = plan.axis[d];
    if (varies(a, with_parameters))
      axis[rank++] = {a.size,
                      {a.stride[Plan::kMean], a.stride[Plan::kVariance], a.stride[Plan::kScale],
                       a.stride[Plan::kBias]}};
  }
  for (int d = plan.rank - 1; d >= 0; --d) {
    if (!varies(plan.axis[d], with_parameters)) continue;
    stride[d] = count;
    count *= plan.axis[d].size;
  }
}

bool are_cells_shared(const Plan& plan, const NormalizeCells& cells) {
  return (plan.has_mean || plan.has_variance) && cells.count <= plan.elements / kLeastShared;
}

MvnPlan normalize_groups(const Plan& plan) {
  MvnPlan groups;
  groups.dtype = plan.dtype;
  groups.scale_dtype = plan.scale_dtype;
  groups.bias_dtype = plan.bias_dtype;
  groups.has_scale = plan.has_scale;
  groups.has_bias = plan.has_bias;
  groups.use_mean = plan.has_mean;
  groups.use_variance = plan.has_variance;
  groups.activation = plan.activation;
  for (int d = 0; d < plan.rank; ++d) {
    const Plan::Axis& a = plan.axis[d];
    const MvnAxis axis = {a.size, a.stride[Plan::kX], a.stride[Plan::kY], a.stride[Plan::kScale],
                          a.stride[Plan::kBias]};
    const bool is_kept = varies(a, false);
    (is_kept ? groups.kept[groups.kept_rank++] : groups.reduced[groups.reduced_rank++]) = axis;
    (is_kept ? groups.groups : groups.group_size) *= a.size;
  }
  return groups;
}

NormalizeSheets::NormalizeSheets(const Plan& plan) {
  if (plan.rank == 0) return;
  const Plan::Axis& inner = plan.axis[plan.rank - 1];
  if (varies(inner, true)) return;
  size = 1;
  int d = plan.rank;
  while (d > 0 && plan.axis[d - 1].stride[Plan::kX] == size &&
         plan.axis[d - 1].stride[Plan::kY] == size)
    size *= plan.axis[--d].size;
  if (d == plan.rank) return;
  run = inner.size;
  apart = d;
  for (int i = 0; i < apart; ++i) count *= plan.axis[i].size;
  const int64_t vector = mvn_vector(plan.dtype);
  // An address may stand up to vector - 1 elements behind an aligned one.
  parts = ceil_div(size + vector - 1, kRunThreads * kRunSlots * vector);
}

Kernels<Plan> normalize_kernels() { return kKernels; }

}  // namespace cudml::cuda
