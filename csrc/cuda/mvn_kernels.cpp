// The kernels of normalization, first choice first, and how they cut the work.
#include "cuda/mvn_kernels.h"

#include <algorithm>
#include <bit>
#include <iterator>

#include "math/moments.h"

namespace cudml::cuda {
namespace {

constexpr int64_t kBlockRowBytes = 64 << 10;  // of a row that a block keeps in registers
constexpr int64_t kStaticShared = 2560;       // bytes beside a row in shared memory
constexpr int64_t kMostCluster = 8;        // blocks, which every GPU with clusters can run together
constexpr int64_t kLeastSegment = 128;     // bytes in a row, a whole line
constexpr int64_t kLeastSplit = 4096;      // elements of a group that blocks share
constexpr int64_t kMostParts = 1024;       // of one group, wherever it is computed
constexpr int64_t kMostColumnParts = 512;  // the same in columns, which are joined by a warp
constexpr int64_t kMaxFold = 64;           // neighbouring columns of one group
constexpr int64_t kApplyRows = 16;         // that a thread brings its columns' statistics for
constexpr int64_t kLineBytes = 128;        // of columns, side by side in one block at least

using Axis = int64_t MvnAxis::*;
constexpr Axis kTensors[] = {&MvnAxis::x, &MvnAxis::y, &MvnAxis::scale, &MvnAxis::bias};

int64_t row_bytes(const MvnPlan& plan) { return plan.group_size * int64_t(size_of(plan.dtype)); }

bool is_tile_type(const MvnPlan& plan, const Situation&) {
  return plan.dtype == Dtype::float32 || size_of(plan.dtype) == 2;
}

/// The last element's offset from a group's first, in the tensor where it is largest.
int64_t group_extent(const MvnPlan& plan) {
  int64_t largest = plan.group_size;
  for (Axis stride : kTensors) {
    int64_t extent = 0;
    for (int d = 0; d < plan.reduced_rank; ++d)
      extent += (plan.reduced[d].size - 1) * plan.reduced[d].*stride;
    largest = std::max(largest, extent);
  }
  return largest;
}

bool is_indexable(const MvnPlan& plan, const Situation&) {
  return plan.groups < kMvnOffsetLimit && group_extent(plan) < kMvnOffsetLimit;
}

bool is_row(const MvnPlan& plan, const Situation&) {
  if (plan.reduced_rank == 0) return true;
  if (plan.reduced_rank > 2) return false;
  const MvnAxis& inner = plan.reduced[plan.reduced_rank - 1];
  if (inner.x != 1 || inner.y != 1) return false;
  if (plan.reduced_rank == 1) return true;
  const MvnAxis& outer = plan.reduced[0];
  const bool is_joined = outer.x == inner.size && outer.y == inner.size;
  return is_joined || inner.size * int64_t(size_of(plan.dtype)) >= kLeastSegment;
}

bool is_short(const MvnPlan& plan, const Situation&) { return plan.group_size <= kMvnMostShortRow; }

bool fits_warp(const MvnPlan& plan, const Situation&) {
  return plan.group_size < (32 * kMvnWarpSlots + 1) * mvn_vector(plan.dtype);
}

bool fits_registers(const MvnPlan& plan, const Situation& situation) {
  const int64_t staged = row_bytes(plan) + kStaticShared;
  return row_bytes(plan) <= kBlockRowBytes && staged <= situation.shared_bytes;
}

/// Blocks of a cluster for each row: one for a part, while there are so few.
int64_t cluster_blocks(const MvnPlan& plan) {
  const uint64_t parts = uint64_t(mvn_split_parts(plan).count);
  return std::min(int64_t(std::bit_ceil(parts)), kMostCluster);
}

/// How `blocks` blocks keep the parts of each row. Few threads work on them where a
/// multiprocessor's shared memory holds several blocks, whose loads, sums and stores then overlap.
Geometry kept_geometry(const MvnPlan& plan, const Situation& situation, int64_t blocks) {
  const MvnParts cut = mvn_split_parts(plan);
  const int64_t per_block = ceil_div(cut.count, blocks);
  const int64_t bytes = per_block * cut.elements * int64_t(size_of(plan.dtype));
  const int64_t together = std::max<int64_t>(situation.shared_bytes / (bytes + kStaticShared), 1);
  const int64_t teams = std::min(per_block, ceil_div(kMvnSharedThreads / kMvnThreads, together));
  return {uint32_t(plan.groups * blocks), uint32_t(teams * kMvnThreads), bytes, 0,
          uint32_t(blocks)};
}

bool are_kept(const MvnPlan& plan, const Situation& situation, int64_t blocks) {
  return kept_geometry(plan, situation, blocks).shared_bytes + kStaticShared <=
             situation.shared_bytes &&
         ceil_div(mvn_split_parts(plan).count, blocks) <= kMvnMostKeptParts;
}

bool has_clusters(const MvnPlan&, const Situation& situation) { return situation.has_clusters; }

bool fits_cluster(const MvnPlan& plan, const Situation& situation) {
  // Blocks are numbered in 31 bits.
  return plan.groups < kMvnOffsetLimit / kMostCluster &&
         are_kept(plan, situation, cluster_blocks(plan));
}

bool fits_shared(const MvnPlan& plan, const Situation& situation) {
  return are_kept(plan, situation, 1);
}

/// Whether a group stands in short packed pieces of x, apart from each other.
bool is_folded(const MvnPlan& plan) {
  if (plan.reduced_rank < 2) return false;
  const MvnAxis *const inner = &plan.reduced[plan.reduced_rank - 1], *const outer = inner - 1;
  return inner->x == 1 && inner->size <= kMaxFold && outer->x != inner->size;
}

/// The columns of a plan. One, or a group's own, where kept dimensions do not go on with them.
MvnColumns columns_of(const MvnPlan& plan) {
  MvnColumns c;
  c.axis = {1, 1, 1, 0, 0};
  c.reduced_rank = plan.reduced_rank;
  c.outer_rank = plan.kept_rank;
  const MvnAxis kept = plan.kept_rank > 0 ? plan.kept[plan.kept_rank - 1] : c.axis;
  if (is_folded(plan)) {
    c.axis = plan.reduced[--c.reduced_rank];
    c.fold = c.axis.size;
    if (plan.kept_rank > 0 && std::all_of(std::begin(kTensors), std::end(kTensors),
                                          [&](Axis s) { return kept.*s == c.axis.*s * c.fold; })) {
      c.axis.size *= kept.size;
      --c.outer_rank;
    }
  } else if (plan.kept_rank > 0) {
    c.axis = kept;
    --c.outer_rank;
  }
  c.rows = plan.group_size / c.fold;
  c.outer = plan.groups * c.fold / c.axis.size;
  return c;
}

/// Of the group alone, whose order of additions this chooses: not of what is kept beside it.
bool has_columns(const MvnPlan& plan, const Situation&) {
  if (plan.reduced_rank == 0 || !(plan.use_mean || plan.use_variance)) return false;
  return plan.reduced[plan.reduced_rank - 1].x != 1 || is_folded(plan);
}

/// Rows, columns and blocks are numbered in 32 bits. Of large batches no more is asked: they are to
/// have the kernels, and the bits, of small ones (D-TEN-9).
template <MvnColumns (*... kCuts)(const MvnPlan&)>
bool are_columns_indexable(const MvnPlan& plan, const Situation&) {
  const MvnColumns c = columns_of(plan);
  const auto fits = [](const MvnColumns& cut) {
    return cut.tiles * cut.outer * cut.parts < kMvnOffsetLimit;
  };
  return c.axis.size < kMvnOffsetLimit / 2 && c.rows < kMvnOffsetLimit / 2 &&
         (fits(kCuts(plan)) && ...);
}

bool are_parts_joinable(const MvnPlan& plan, const Situation&) {
  return plan.groups * mvn_join_lanes(mvn_columns_of(plan)) < kMvnOffsetLimit;
}

bool are_columns_short(const MvnPlan& plan, const Situation&) {
  const MvnColumns c = columns_of(plan);
  return c.fold == 1 && c.rows * kMvnLeastTileLanes <= kMvnThreads * kMvnTileRows;
}

bool is_long(const MvnPlan& plan, const Situation&) { return plan.group_size >= kLeastSplit; }

bool is_splittable(const MvnPlan& plan, const Situation&) { return are_parts_countable(plan); }

/// Blocks that fill the GPU several times.
int64_t many_blocks(const Situation& situation) { return int64_t{situation.multiprocessors} * 16; }

Geometry rows_geometry(const MvnPlan& plan, const Situation&) {
  const int slots = size_of(plan.dtype) == 2 ? kMvnRowsSlots16 : kMvnRowsSlots32;
  const int64_t rows = kMvnRowsThreads / mvn_row_lanes(plan) * (kMvnRowsBatchSlots / slots);
  return {uint32_t(ceil_div(plan.groups, rows)), uint32_t(kMvnRowsThreads),
          kMvnRowsThreads * kMvnRowsBatchSlots * kMvnAccess};
}

Geometry warp_geometry(const MvnPlan& plan, const Situation&) {
  return {uint32_t(ceil_div(plan.groups * 32, kMvnWarpThreads)), uint32_t(kMvnWarpThreads),
          kMvnWarpThreads * kMvnWarpSlots * kMvnAccess};
}

/// A row's accesses in shared memory, where the kernel or the row's layout wants them there.
int64_t staged_bytes(const MvnPlan& plan) {
  return std::max<int64_t>(plan.group_size / mvn_vector(plan.dtype), 1) * kMvnAccess;
}

Geometry block_geometry(const MvnPlan& plan, const Situation&) {
  uint32_t threads = 64;
  while ((threads * kMvnBlockSlots + 1) * mvn_vector(plan.dtype) <= plan.group_size) threads *= 2;
  return {uint32_t(plan.groups), threads, staged_bytes(plan)};
}

Geometry cluster_geometry(const MvnPlan& plan, const Situation& situation) {
  return kept_geometry(plan, situation, cluster_blocks(plan));
}

Geometry shared_geometry(const MvnPlan& plan, const Situation& situation) {
  return kept_geometry(plan, situation, 1);
}

Geometry column_tile_geometry(const MvnPlan& plan, const Situation&) {
  const MvnColumns c = mvn_column_tiles_of(plan);
  return {uint32_t(c.tiles * c.outer), uint32_t(kMvnThreads)};
}

Geometry columns_geometry(const MvnPlan& plan, const Situation&) {
  const MvnColumns c = mvn_columns_of(plan);
  return {uint32_t(c.tiles * c.outer * c.parts), uint32_t(kMvnThreads), 0,
          mvn_column_workspace(plan, c).total};
}

Geometry split_geometry(const MvnPlan& plan, const Situation&) {
  const MvnParts cut = mvn_split_parts(plan);
  const int64_t blocks = cut.count * plan.groups;
  return {uint32_t(blocks), uint32_t(kMvnThreads), 0, mvn_workspace(plan, blocks).total};
}

Geometry generic_geometry(const MvnPlan& plan, const Situation& situation) {
  return {uint32_t(std::min(plan.groups, many_blocks(situation))), uint32_t(kMvnThreads)};
}

/// With room for the groups' statistics where they are results.
template <Geometry (*kOf)(const MvnPlan&, const Situation&)>
Geometry with_statistics(const MvnPlan& plan, const Situation& situation) {
  Geometry geometry = kOf(plan, situation);
  if (plan.has_statistics())
    geometry.workspace_bytes =
        ceil_div(geometry.workspace_bytes, 256) * 256 + mvn_statistics_bytes(plan);
  return geometry;
}

constexpr Predicate<MvnPlan> kIsTileType = {"elements are float32, float16 or bfloat16",
                                            is_tile_type};
constexpr Predicate<MvnPlan> kIsRow = {"a group is a row, or several long ones", is_row};
constexpr Predicate<MvnPlan> kIsIndexable = {
    "groups, and offsets inside one, stay below 2^31 elements", is_indexable};
constexpr Predicate<MvnPlan> kHasColumns = {
    "a group's elements, or pieces of at most 64, stand apart, whatever is kept beside them",
    has_columns};
template <MvnColumns (*... kCuts)(const MvnPlan&)>
constexpr Predicate<MvnPlan> kAreColumnsIndexable = {
    "rows and columns stay below 2^30, and blocks below 2^31", are_columns_indexable<kCuts...>};

constexpr Kernel<MvnPlan> kKernels[] = {
    {"mvn_rows",
     {kIsTileType, kIsRow, kIsIndexable, {"groups have at most 512 elements", is_short}},
     with_statistics<rows_geometry>},
    {"mvn_warp",
     {kIsTileType, kIsRow, kIsIndexable, {"a warp's registers hold a group", fits_warp}},
     with_statistics<warp_geometry>},
    {"mvn_block",
     {kIsTileType, kIsRow, kIsIndexable, {"groups have at most 64 KiB", fits_registers}},
     with_statistics<block_geometry>},
    {"mvn_cluster",
     {kIsTileType,
      kIsRow,
      kIsIndexable,
      {"the GPU runs blocks in clusters", has_clusters},
      {"the shared memory of a cluster of at most 8 blocks holds a group", fits_cluster}},
     with_statistics<cluster_geometry>},
    {"mvn_shared",
     {kIsTileType,
      kIsRow,
      kIsIndexable,
      {"shared memory holds a group, however few there are", fits_shared}},
     with_statistics<shared_geometry>},
    {"mvn_column_tile",
     {kIsTileType,
      kHasColumns,
      {"groups have at most 512 elements, none of them neighbours", are_columns_short},
      kAreColumnsIndexable<mvn_column_tiles_of>},
     with_statistics<column_tile_geometry>},
    {"mvn_columns",
     {kIsTileType,
      kHasColumns,
      kAreColumnsIndexable<mvn_columns_of, mvn_apply_columns_of>,
      {"fewer than 2^31 threads join the groups' parts", are_parts_joinable}},
     with_statistics<columns_geometry>},
    {"mvn_split",
     {{"groups have at least 4096 elements", is_long},
      {"there are fewer than 2^26 groups of fewer than 2^30 elements, in fewer than 2^31 parts",
       is_splittable}},
     with_statistics<split_geometry>},
    {"mvn_generic", {}, with_statistics<generic_geometry>},
};
static_assert(std::size(kKernels) == size_t(MvnKernel::count));

}  // namespace

bool can_take(MvnKernel kernel, const MvnPlan& plan, const Situation& situation) {
  return !choose::refusal(kKernels[size_t(kernel)], plan, situation);
}

int mvn_row_lanes(const MvnPlan& plan) {
  const int64_t vector = mvn_vector(plan.dtype);
  const int slots = size_of(plan.dtype) == 2 ? kMvnRowsSlots16 : kMvnRowsSlots32;
  int lanes = int(vector);
  while (lanes < 32 && (lanes * slots + 1) * vector <= plan.group_size) lanes *= 2;
  return lanes;
}

MvnParts mvn_split_parts(const MvnPlan& plan) {
  const int64_t step = kMvnThreads * mvn_vector(plan.dtype);
  // Some tiles for each thread, one where there are few parts otherwise.
  const int64_t tiles = plan.group_size / (kMvnSplitSlots * step);
  const int64_t parts =
      std::clamp(tiles / 4, std::clamp(tiles, int64_t{1}, int64_t{64}), kMostParts);
  const int64_t elements = ceil_div(ceil_div(plan.group_size, parts), step) * step;
  return {ceil_div(plan.group_size, elements), elements};
}

bool are_parts_countable(const MvnPlan& plan) {
  // The groups' last parts may end beyond them.
  return plan.groups < kMvnOffsetLimit / 32 && plan.group_size < kMvnOffsetLimit / 2 &&
         plan.groups * mvn_split_parts(plan).count < kMvnOffsetLimit;
}

MvnColumns mvn_columns_of(const MvnPlan& plan) {
  MvnColumns c = columns_of(plan);
  // Columns that may lie between two rows of a group; how many do is not asked.
  const int64_t between = c.reduced_rank > 0 ? plan.reduced[c.reduced_rank - 1].x : 1;
  const int64_t vectors = ceil_div(between, mvn_vector(plan.dtype));
  // Along the columns at least whole lines, and more where there are few rows.
  const auto has_few_rows = [&] { return c.rows * c.lanes < 8 * kMvnThreads; };
  while (c.lanes < vectors && c.lanes < kMvnThreads &&
         (c.lanes * kMvnAccess < kLineBytes || has_few_rows()))
    c.lanes *= 2;
  c.tiles = ceil_div(ceil_div(c.axis.size, mvn_vector(plan.dtype)), c.lanes);
  const int64_t steps = kMvnThreads / c.lanes;
  // One thread's chain of additions stays short.
  c.part_rows = std::clamp(ceil_div(c.rows, kMostColumnParts), 32 * steps, 512 * steps);
  c.parts = ceil_div(c.rows, c.part_rows);
  return c;
}

int64_t mvn_join_lanes(const MvnColumns& columns) {
  return int64_t(std::bit_ceil(uint64_t(std::min<int64_t>(columns.parts * columns.fold, 32))));
}

MvnColumns mvn_apply_columns_of(const MvnPlan& plan) {
  MvnColumns c = mvn_columns_of(plan);
  c.part_rows = kApplyRows * (kMvnThreads / c.lanes);
  c.parts = ceil_div(c.rows, c.part_rows);
  return c;
}

MvnColumns mvn_column_tiles_of(const MvnPlan& plan) {
  MvnColumns c = columns_of(plan);
  c.lanes = 32;
  while (c.rows * c.lanes > kMvnThreads * kMvnTileRows) c.lanes /= 2;
  c.tiles = ceil_div(ceil_div(c.axis.size, mvn_vector(plan.dtype)), c.lanes);
  c.part_rows = c.rows;
  return c;
}

namespace {

MvnWorkspace workspace_of(const MvnPlan& plan, int64_t moments) {
  const bool is_wide = plan.dtype == Dtype::float64;
  const int64_t normalizer = is_wide ? sizeof(Normalizer<double>) : sizeof(Normalizer<float>);
  const int64_t end = ceil_div(moments, 256) * 256;
  return {0, end, end + plan.groups * normalizer};
}

}  // namespace

MvnWorkspace mvn_workspace(const MvnPlan& plan, int64_t parts) {
  const bool is_wide = plan.dtype == Dtype::float64;
  return workspace_of(plan,
                      parts * int64_t(is_wide ? sizeof(Moments<double>) : sizeof(Moments<float>)));
}

int64_t mvn_statistics_bytes(const MvnPlan& plan) {
  return plan.groups * int64_t(sizeof(Moments<double>));
}

MvnWorkspace mvn_column_workspace(const MvnPlan& plan, const MvnColumns& c) {
  return workspace_of(plan, c.outer * c.parts * c.axis.size * kMvnColumnMomentsBytes);
}

Kernels<MvnPlan> mvn_kernels() { return kKernels; }

}  // namespace cudml::cuda
