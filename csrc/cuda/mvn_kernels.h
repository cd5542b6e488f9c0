// What the list of normalization kernels and the kernels themselves agree on: order, shapes,
// memory.
#pragma once

#include "cuda/choose.h"

namespace cudml::cuda {

/// In the order of the list.
enum class MvnKernel : int {
  rows,
  warp,
  block,
  cluster,
  shared,
  column_tile,
  columns,
  split,
  generic,
  count
};

inline constexpr int64_t kMvnOffsetLimit = int64_t{1} << 31;

/// Bytes that one access moves in the kernels that keep rows on chip.
inline constexpr int64_t kMvnAccess = 16;

/// Accesses of one thread to its part of a row, that is registers of 16 bytes.
inline constexpr int kMvnRowsSlots16 = 2, kMvnRowsSlots32 = 4;  // by bits of an element
inline constexpr int kMvnRowsBatchSlots = 4;  // of all the rows that a thread has in flight
inline constexpr int kMvnWarpSlots = 8, kMvnBlockSlots = 8;
/// Accesses whose scale and bias are fetched together.
inline constexpr int kMvnParameterSlots = 4, kMvnSharedParameterSlots = 2;
inline constexpr int kMvnRowsThreads = 128, kMvnWarpThreads = 128;
inline constexpr int kMvnMostBlockThreads = 512, kMvnSharedThreads = 1024;
inline constexpr int64_t kMvnMostShortRow = 512;  // elements

/// Threads of the kernels that stream groups, and of the one that joins their parts.
inline constexpr int kMvnThreads = 256;

/// Parts of a row that a block keeps in shared memory at most: they have 16 KiB and more.
inline constexpr int kMvnMostKeptParts = 16;

/// Accesses of a thread to a part of a group that are on their way together.
inline constexpr int kMvnSplitSlots = 4;

/// Rows that a thread keeps where a block keeps columns, and columns of vectors that a block has at
/// least.
inline constexpr int kMvnTileRows = 8, kMvnLeastTileLanes = 4;

constexpr int64_t mvn_vector(Dtype dtype) { return kMvnAccess / int64_t(size_of(dtype)); }

constexpr int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

/// Lanes that share a short row: the least power of two whose slots hold it. Never fewer than an
/// access has elements, so that each of them takes one element of what whole accesses leave over.
int mvn_row_lanes(const MvnPlan& plan);

/// Whether this kernel can take the plan.
bool can_take(MvnKernel kernel, const MvnPlan& plan, const Situation& situation);

/// How groups are cut where many blocks share one, whatever the device's size and the number of
/// groups; count * groups is the geometry's blocks.
struct MvnParts {
  int64_t count = 1;     // of one group
  int64_t elements = 0;  // of all parts but the last, whole accesses of all threads
};
MvnParts mvn_split_parts(const MvnPlan& plan);
/// Whether 32 bits number groups, elements and parts: broadcast ones may be more than memory holds.
bool are_parts_countable(const MvnPlan& plan);

/// Columns: the fastest kept dimension, or that together with the reduced one inside it (channels
/// of a group, NHWC), where every tensor walks both as one, else one of them alone.
struct MvnColumns {
  MvnAxis axis;
  int64_t fold = 1;      // neighbours that belong to one group
  int reduced_rank = 0;  // reduced dimensions that tell rows apart
  int outer_rank = 0;    // kept dimensions outside
  int64_t rows = 1;      // of one group
  int64_t outer = 1;     // positions of the kept dimensions outside
  int64_t lanes = 1;     // threads of a block along the columns; the others go along the rows
  int64_t tiles = 1;     // blocks along the columns
  int64_t parts = 1, part_rows = 1;  // blocks along the rows; rows of all parts but the last
};
/// tiles * outer * parts is the number of blocks.
MvnColumns mvn_columns_of(const MvnPlan& plan);
/// The same for writing the result: its rows do not wait for each other, so that more blocks share
/// them.
MvnColumns mvn_apply_columns_of(const MvnPlan& plan);
/// And for columns that blocks keep: one part.
MvnColumns mvn_column_tiles_of(const MvnPlan& plan);

/// Lanes that join the parts of a group's columns, a power of two.
int64_t mvn_join_lanes(const MvnColumns& columns);

/// Bytes of the statistics of one column over the rows of one part.
inline constexpr int64_t kMvnColumnMomentsBytes = 12;

/// Statistics of parts, then the groups' normalizers.
struct MvnWorkspace {
  int64_t moments = 0, normalizers = 0, total = 0;  // bytes: where each begins, where all ends
};
MvnWorkspace mvn_workspace(const MvnPlan& plan, int64_t parts);
MvnWorkspace mvn_column_workspace(const MvnPlan& plan, const MvnColumns& columns);

/// Moments of all groups, the last part of the workspace, where statistics are results.
int64_t mvn_statistics_bytes(const MvnPlan& plan);

}  // namespace cudml::cuda
